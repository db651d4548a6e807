import type { AnswerView } from "./answer-view.ts";
import type { ChatAnswer, ChatEvent, ChatMessage, ChatPart } from "./chat-client.ts";
import { endingOf } from "./ending.ts";
import { inWords, ORIGIN_NOT_ALLOWED } from "./error-codes.ts";
import type { Offers } from "./offers.ts";
import { explain } from "./plain-language.ts";
import type { Strings } from "./strings.ts";
import type { Views } from "./views.ts";

type Completed = Extract<ChatEvent, { type: "completed" }>;

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

  get #strings(): Strings {
    return this.#views.conversation.strings;
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
      const explanation = explain({ kind: "answer", body: error }, this.#strings, !this.#answer.isEmpty);
      const { what, askAgain, goOn = false } = explanation;
      this.#answer.note(this.#strings.incompleteBecause(what), { retry: isLast && askAgain, goOn: isLast && goOn });
      return;
    }
    const reason = finishReason ?? (status === "cancelled" ? status : "stop");
    const { note, canGoOn } = endingOf(
      { type: "completed", finishReason: reason, usage: null, degraded: false },
      this.#strings,
    );
    this.#answer.note(note, { retry: isLast, goOn: isLast && canGoOn && text !== "" });
  }

  /** Ends an exchange that `error` has ended. What has arrived stays, and the error is told below it. */
  async fail(error: unknown): Promise<void> {
    await this.#answer.end();
    if (this.#isLeft) return;
    const { conversation, announcer, status } = this.#views;
    const hasText = !this.#answer.isEmpty;
    const explanation = explain(error, this.#strings, hasText);
    announcer.finish(explanation.what);
    if (hasText) this.#answer.note(this.#strings.incomplete, {});
    else this.#answer.element.remove();
    if (this.#before) this.#before.#setPassing(false);
    status.show("error", hasText ? this.#strings.incomplete : undefined);
    conversation.addError(explanation, this.#offers);
  }

  /** Ends an exchange whose page the server does not let in. */
  forbid(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.element.remove();
    const explanation = inWords(ORIGIN_NOT_ALLOWED, this.#strings);
    this.#views.announcer.finish(explanation.what);
    this.#views.conversation.addError(explanation, this.#offers);
  }

  /** No more of the answer will be shown: what has come of it stays. */
  leave(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.note(this.#strings.incomplete, {});
    this.#views.announcer.finish(this.#strings.answerIncomplete);
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
        if (this.#misses === 0) status.show(underWay, underWay === "waiting" ? this.#strings.sending : undefined);
        break;
      case "accepted":
        this.#answer.identify(event.responseId);
        this.#reached();
        if ((event.historyDropped ?? 0) > 0)
          this.#views.conversation.noticeOnce(this.#strings.historyDropped, this.#answer.element);
        status.show(underWay);
        break;
      case "restarted":
        this.#answer.restart(event.keep, event.parts);
        announcer.restart(this.#strings.answerBeginsAgain);
        break;
      case "queued":
        this.#reached();
        status.show("waiting", this.#queued(event.position, event.expectedSeconds));
        break;
      case "lag":
        status.show("streaming", this.#strings.catchingUp);
        break;
      case "waiting":
        this.#reached();
        status.show("waiting", this.#strings.busyUntil(event.delayMs));
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

  /** Where the question waits for the model. */
  #queued(position: number, expectedSeconds: number | null): string {
    return this.#strings.queued(position, expectedSeconds === null ? null : Math.max(1, expectedSeconds));
  }

  /** How the server was missed. */
  #missed(): string {
    if (navigator.onLine === false) return this.#strings.offline;
    return this.#wasReached && this.#misses === 1 ? this.#strings.connectionLost : this.#strings.unreachable;
  }

  /** The server was heard of. Only now it is known that another way than a WebSocket leads there. */
  #reached(): void {
    this.#wasReached = true;
    this.#misses = 0;
    if (this.#isFallback) this.#views.conversation.noticeOnce(this.#strings.fallback, this.#answer.element);
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
    const doing = doingOf(part, this.#strings);
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
    const tookMs = performance.now() - this.#askedAt;
    const { state, label, note, announcement, canGoOn } = endingOf(event, this.#strings, tookMs);
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
function doingOf(part: ChatPart, strings: Strings): string {
  if (part.type === "reasoning") return strings.thinking;
  if (part.type !== "tool") return "";
  return part.result === undefined ? strings.usingTool(part.name) : strings.resultOfTool(part.name);
}
