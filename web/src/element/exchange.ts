import type { AnswerView } from "./answer-view.ts";
import type { ChatAnswer, ChatEvent, ChatMessage, ChatPart } from "./chat-client.ts";
import { endingOf } from "./ending.ts";
import { ORIGIN_NOT_ALLOWED } from "./error-codes.ts";
import type { Offers } from "./offers.ts";
import { explain, isRefusal } from "./plain-language.ts";
import type { Views } from "./views.ts";

type Completed = Extract<ChatEvent, { type: "completed" }>;

const FALLBACK =
  "No WebSocket could be opened, so this answer comes by another way: the same text, in fewer and larger pieces.";
const DROPPED = "This conversation has grown too long: the model is not told its oldest messages any more.";
const DROPPED_BY_MODEL =
  "This conversation has grown too long for the model: it is not told the oldest messages any more.";
const LOST = "Connection lost, reconnecting…";
const OFFLINE = "You are offline. It goes on when the network is back.";
export const UNREACHABLE = "The server can't be reached. Trying again…";

/** One question, from the asking to the end of its answer: turns events into what the reader sees and hears. */
export class Exchange {
  readonly #views: Views;
  readonly #source: ChatAnswer;
  readonly #offers: Offers;
  readonly #question: HTMLElement;
  readonly #answer: AnswerView;
  /** The try before this one, the answer of which stands until this one has something to show. */
  #before: Exchange | undefined;
  #isLeft = false;
  #wasReached = false;
  /** How often in a row the server was not reached. */
  #misses = 0;
  #isFallback = false;
  /** What the model does while no text comes; empty where that isn't told. */
  #doing = "";
  readonly #askedAt = performance.now();

  /** `offers`: what the reader may choose at the end. `before`: the last exchange, if this is another try at it. */
  constructor(views: Views, source: ChatAnswer, offers: Offers, before?: Exchange) {
    this.#views = views;
    this.#source = source;
    this.#offers = offers;
    this.#before = before;
    this.#question = before ? before.#question : views.conversation.addQuestion(source.question);
    this.#question.textContent = source.question;
    this.#answer = views.conversation.addAnswer(offers);
    if (source.responseId !== null) this.#answer.identify(source.responseId);
    views.status.show("connecting");
  }

  get question(): string {
    return this.#source.question;
  }

  /** What another try at this question replaces: the last one that the server has; `undefined` for none. */
  get messageId(): string | undefined {
    return this.#source.responseId === null ? this.#before?.messageId : this.#source.messageId;
  }

  /** Whether the server has been heard of. */
  get wasReached(): boolean {
    return this.#wasReached;
  }

  /** Shows an event. Resolves at once, but for the last one: then when all is on the screen. */
  async show(event: ChatEvent): Promise<void> {
    if (event.type === "completed") await this.#complete(event);
    else if (event.type === "delta") this.#showText(event.text);
    else if (event.type === "part") this.#showPart(event.position, event.part);
    else this.#showProgress(event);
  }

  /** Shows an answer of before, at once. */
  restore({ text, parts, status, finishReason, error }: ChatMessage, isLast: boolean): void {
    this.#answer.restore(text, parts);
    if (error !== null) {
      const explanation = explain({ kind: "answer", body: error }, !this.#answer.isEmpty);
      const { what, askAgain, goOn = false } = explanation;
      this.#answer.note(`Incomplete · ${what}`, { retry: isLast && askAgain, goOn: isLast && goOn });
      return;
    }
    const reason = finishReason ?? (status === "cancelled" ? status : "stop");
    const { note, canGoOn } = endingOf({ type: "completed", finishReason: reason, usage: null, degraded: false });
    this.#answer.note(note, { retry: isLast, goOn: isLast && canGoOn && text !== "" });
  }

  /**
   * Ends an exchange that `error` has ended. What has arrived stays, and the error is told below it. Returns whether the
   * question never got in, and can only get in otherwise.
   */
  async fail(error: unknown): Promise<boolean> {
    await this.#answer.end();
    if (this.#isLeft) return false;
    const { conversation, announcer, status } = this.#views;
    const hasText = !this.#answer.isEmpty;
    const explanation = explain(error, hasText);
    announcer.finish(explanation.what);
    if (hasText) this.#answer.note("Incomplete", {});
    else this.#answer.element.remove();
    if (this.#before) this.#before.#setPassing(false);
    status.show("error", hasText ? "Incomplete" : undefined);
    const canEdit = this.#source.responseId === null && isRefusal(error) && !explanation.askAgain;
    conversation.addError({ ...explanation, canEdit }, this.#offers);
    return canEdit;
  }

  /** Ends an exchange whose page the server does not let in. */
  forbid(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.element.remove();
    this.#views.announcer.finish(ORIGIN_NOT_ALLOWED.what);
    this.#views.conversation.addError(ORIGIN_NOT_ALLOWED, this.#offers);
  }

  /** No more of the answer will be shown: what has come of it stays. */
  leave(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.note("Incomplete", {});
    this.#views.announcer.finish("Answer incomplete.");
  }

  /** Takes the question and its answer away. */
  remove(): void {
    this.#question.remove();
    this.#removeAnswer();
    this.#views.announcer.restart("");
  }

  /** Another try at this question begins, and the error of this one is of no interest any more. */
  pass(): void {
    this.#views.conversation.removeError();
    this.#setPassing(true);
  }

  /** Shows the answer as one that another is about to replace, or no more. */
  #setPassing(passing: boolean): void {
    this.#answer.element.classList.toggle("passing", passing);
    if (this.#before) this.#before.#setPassing(passing);
  }

  #removeAnswer(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.element.remove();
    if (this.#before) this.#before.#removeAnswer();
  }

  #showProgress(event: Exclude<ChatEvent, { type: "completed" | "delta" | "part" }>): void {
    const { status, announcer } = this.#views;
    const underWay = this.#answer.isEmpty ? "waiting" : "streaming";
    switch (event.type) {
      case "transport":
        this.#isFallback = event.fallback;
        if (this.#misses === 0) status.show(underWay, underWay === "waiting" ? "Sending…" : undefined);
        break;
      case "accepted":
        this.#answer.identify(event.responseId);
        this.#reached();
        if ((event.historyDropped ?? 0) > 0) {
          const why = event.historyDroppedBy === "model" ? DROPPED_BY_MODEL : DROPPED;
          this.#views.conversation.noticeOnce(why, this.#answer.element);
        }
        status.show(underWay);
        break;
      case "restarted":
        this.#answer.restart(event.keep, event.parts);
        announcer.restart("The answer begins again.");
        break;
      case "queued":
        this.#reached();
        status.show("waiting", queuedText(event.position, event.expectedSeconds));
        break;
      case "lag":
        status.show("streaming", "Catching up");
        break;
      case "waiting":
        this.#reached();
        status.show("waiting", `Busy, trying again in ${seconds(event.delayMs)}`);
        break;
      case "reconnecting":
        this.#misses += 1;
        status.show("connecting", this.#missed());
        break;
      case "resumed":
      case "polled":
        this.#reached();
        status.show(underWay);
        break;
    }
  }

  /** How the server was missed. */
  #missed(): string {
    if (navigator.onLine === false) return OFFLINE;
    return this.#wasReached && this.#misses === 1 ? LOST : UNREACHABLE;
  }

  /** The server was heard of. Only now it is known that another way than a WebSocket leads there. */
  #reached(): void {
    this.#wasReached = true;
    this.#misses = 0;
    if (this.#isFallback) this.#views.conversation.noticeOnce(FALLBACK, this.#answer.element);
  }

  #showText(text: string): void {
    this.#reached();
    this.#takeOver();
    this.#answer.append(text);
    this.#doing = "";
    this.#views.announcer.addText(text);
    this.#views.status.show("streaming");
  }

  #showPart(position: number, part: ChatPart): void {
    this.#reached();
    this.#takeOver();
    this.#answer.show(position, part);
    const doing = doingOf(part);
    if (doing === this.#doing) return;
    this.#doing = doing;
    if (doing === "") return;
    this.#views.announcer.interrupt(`${doing}.`);
    this.#views.status.show("streaming", `${doing}…`);
  }

  /** There is something to show: the answer of the try before this one may go. */
  #takeOver(): void {
    if (this.#before) this.#before.#removeAnswer();
    this.#before = undefined;
  }

  async #complete(event: Completed): Promise<void> {
    const took = seconds(performance.now() - this.#askedAt);
    const { state, label, note, announcement, canGoOn } = endingOf(event, took);
    this.#takeOver();
    await this.#answer.end();
    if (this.#isLeft) return;
    this.#answer.note(note, { retry: true, goOn: canGoOn && this.#answer.text !== "" });
    this.#views.announcer.finish(announcement);
    this.#views.conversation.follow();
    this.#views.status.show(state, label);
  }
}

/** What the model does with this part, if that is worth a word. */
function doingOf(part: ChatPart): string {
  if (part.type === "reasoning") return "Thinking";
  if (part.type !== "tool") return "";
  return part.result === undefined ? `Using ${part.name}` : `Result of ${part.name}`;
}

/** Where a question waits for the model. */
function queuedText(position: number, expectedSeconds: number | null): string {
  const where = position === 1 ? "Next in the queue" : `Number ${position} in the queue`;
  return expectedSeconds === null ? where : `${where}, about ${Math.max(1, expectedSeconds)} s`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
