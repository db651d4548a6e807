import type { AnswerView } from "./answer-view.ts";
import type { ChatEvent } from "./chat-client.ts";
import type { Views } from "./views.ts";

type Completed = Extract<ChatEvent, { type: "completed" }>;

const FALLBACK =
  "No WebSocket could be opened, so this answer comes by another way: the same text, in fewer and larger pieces.";

/** One question, from the asking to the end of its answer: turns events into what the reader sees and hears. */
export class Exchange {
  readonly #views: Views;
  readonly #question: HTMLElement;
  readonly #answer: AnswerView;
  #isLeft = false;
  readonly #askedAt = performance.now();

  /** `onRetry` is called when the reader wants another answer to the same question. */
  constructor(views: Views, question: string, onRetry: () => void) {
    this.#views = views;
    this.#question = views.conversation.addQuestion(question);
    this.#answer = views.conversation.addAnswer(onRetry);
    views.status.show("connecting");
  }

  /** The server's name for the answer, where it was known before. */
  identify(responseId: string): void {
    this.#answer.identify(responseId);
  }

  /** Shows an event. Resolves at once, but for the last one: then when all is on the screen. */
  async show(event: ChatEvent): Promise<void> {
    if (event.type === "completed") await this.#complete(event);
    else if (event.type === "delta") this.#showText(event.text);
    else this.#showProgress(event);
  }

  /** Ends an exchange that failed: `what` says how, in a few words. */
  async fail(what: string): Promise<void> {
    await this.#answer.end();
    if (this.#isLeft) return;
    this.#views.announcer.finish(what);
    this.#answer.setRetry(false);
    if (this.#answer.text === "") this.#answer.element.remove();
    else this.#answer.note("Incomplete");
    this.#views.status.show("error");
  }

  /** No more of the answer will be shown: what has come of it stays. */
  leave(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.note("Incomplete");
    this.#views.announcer.finish("Answer incomplete.");
  }

  /** Takes the question and its answer away. */
  remove(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#question.remove();
    this.#answer.element.remove();
    this.#views.announcer.restart("");
  }

  #showProgress(event: Exclude<ChatEvent, { type: "completed" | "delta" }>): void {
    const { conversation, status, announcer } = this.#views;
    const underWay = this.#answer.text === "" ? "waiting" : "streaming";
    switch (event.type) {
      case "transport":
        status.showTransport(event.transport);
        if (event.fallback) conversation.noticeOnce(FALLBACK, this.#answer.element);
        status.show(underWay, underWay === "waiting" ? "Sending…" : undefined);
        break;
      case "accepted":
        this.#answer.identify(event.responseId);
        status.show(underWay);
        break;
      case "restarted":
        this.#answer.restart(event.keep);
        announcer.restart("The answer begins again.");
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
        status.show(underWay);
        break;
      case "polled":
        break;
    }
  }

  #showText(text: string): void {
    this.#answer.append(text);
    this.#views.announcer.addText(text);
    this.#views.status.show("streaming");
  }

  async #complete(event: Completed): Promise<void> {
    const cancelled = event.finishReason === "cancelled";
    const note = this.#note(event);
    await this.#answer.end();
    this.#answer.note(note);
    if (this.#isLeft) return;
    this.#views.announcer.finish(cancelled ? "Answer stopped." : "Answer complete.");
    this.#views.conversation.follow();
    this.#views.status.show(cancelled ? "cancelled" : "done");
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
