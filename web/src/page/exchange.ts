import type { AnswerEvent } from "../client/index.ts";
import type { AnswerView } from "./answer-view.ts";
import { DeliveryStats } from "./delivery-stats.ts";
import type { Views } from "./views.ts";

type Completed = Extract<AnswerEvent, { type: "completed" }>;

const FALLBACK = {
  sse: "No WebSocket could be opened, so this answer comes by server-sent events: the same text.",
  "long-poll": "This answer comes by long-polling, which passes everywhere: the same text, in fewer and larger pieces.",
};

/** One question on the page, from the asking to the end of its answer: turns events into what the reader sees. */
export class Exchange {
  readonly #views: Views;
  readonly #answer: AnswerView;
  readonly #askedAt = performance.now();
  readonly #stats = new DeliveryStats(this.#askedAt);
  #polls = 0;

  constructor(views: Views) {
    this.#views = views;
    this.#answer = views.conversation.addAnswer();
    views.status.show("connecting");
    views.stats.showPolls(0);
    views.stats.showDelivery(this.#stats);
  }

  /** `text`: the whole of it, as of this event. */
  show(event: AnswerEvent, text: string): void {
    const { conversation, status, stats } = this.#views;
    switch (event.type) {
      case "transport":
        stats.showTransport(event.transport);
        if (event.transport !== "websocket" && event.fallback)
          conversation.noticeOnce(FALLBACK[event.transport], this.#answer.element);
        if (this.#answer.isEmpty) status.show("waiting", "Sending…");
        else status.show("streaming");
        break;
      case "accepted":
        this.#answer.identify(event.responseId);
        status.show("waiting");
        break;
      case "delta":
        this.#showText(event.text, event.from, event.index);
        break;
      case "restarted":
        this.#answer.replace(text.slice(0, event.keep));
        this.#views.announcer.restart("The answer begins again.");
        break;
      case "lag":
        status.show("streaming", "Catching up");
        break;
      case "waiting":
        status.show("waiting", `Busy, trying again in ${seconds(event.delayMs)}`);
        break;
      case "reconnecting":
        status.show("connecting", "Connection lost, reconnecting…");
        break;
      case "resumed":
        status.show(this.#answer.isEmpty ? "waiting" : "streaming");
        break;
      case "polled":
        this.#polls += 1;
        stats.showPolls(this.#polls);
        break;
      case "completed":
        this.#complete(event);
    }
  }

  /** Ends an exchange that failed: `what` says how, in a few words. */
  fail(what: string): void {
    this.#views.status.show("error");
    this.#views.announcer.finish(what);
    this.#answer.end(this.#answer.isEmpty ? "" : "Incomplete");
    if (this.#answer.isEmpty) this.#answer.element.remove();
  }

  #showText(text: string, from: number, index: number): void {
    const { conversation, status, stats, announcer } = this.#views;
    const follow = conversation.isAtEnd;
    this.#stats.record(performance.now(), from, index);
    this.#answer.append(text);
    announcer.addText(text);
    status.show("streaming");
    stats.showDelivery(this.#stats);
    if (follow) conversation.scrollToEnd();
  }

  #complete(event: Completed): void {
    const cancelled = event.finishReason === "cancelled";
    this.#views.status.show(cancelled ? "cancelled" : "done");
    this.#views.announcer.finish(cancelled ? "Answer stopped." : "Answer complete.");
    this.#answer.end(this.#note(event));
  }

  #note({ finishReason, usage, degraded }: Completed): string {
    const parts = [seconds(performance.now() - this.#askedAt)];
    if (usage !== null) parts.push(`${usage.completion_tokens} tokens`);
    if (finishReason === "cancelled") parts.unshift("Stopped");
    if (finishReason === "length") parts.push("cut at the model's length limit");
    if (degraded) parts.push("from the fallback model");
    return parts.join(" · ");
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
