import type { AnswerView } from "./answer-view.ts";
import type { ChatAnswer, ChatEvent, ChatMessage, ChatPart, ChatQuestion } from "./chat-client.ts";
import { endingOf } from "./ending.ts";
import { inWords, ORIGIN_NOT_ALLOWED } from "./error-codes.ts";
import type { Offers } from "./offers.ts";
import { explain, isAnswerError, isGone, isRefusal } from "./plain-language.ts";
import type { QuestionView } from "./question-view.ts";
import type { Strings } from "./strings.ts";
import type { Views } from "./views.ts";

type Completed = Extract<ChatEvent, { type: "completed" }>;

/** One question, until its answer ends: turns events into texts, a status and announcements. */
export class Exchange {
  readonly #views: Views;
  readonly #source: ChatAnswer;
  readonly #offers: Offers;
  readonly #question: QuestionView;
  readonly #answer: AnswerView;
  /** The attempt before this one. Its answer stays until this one has content. */
  #before: Exchange | undefined;
  /** The `messageId`s of the attempts that the server has, oldest first. */
  #versions: readonly string[];
  #isPutBack = false;
  #isLeft = false;
  /** Whether it failed with an error other than the answer's own. */
  #isUndelivered = false;
  #wasReached = false;
  /** Consecutive failures to reach the server. */
  #misses = 0;
  /** The model's activity while no text comes; empty if unknown. */
  #doing = "";
  readonly askedAt = performance.now();

  /** `offers`: the reader's choices at the end. `before`: the last exchange, if this is another attempt at it. */
  constructor(views: Views, source: ChatAnswer, offers: Offers, before?: Exchange) {
    this.#views = views;
    this.#source = source;
    this.#offers = offers;
    this.#before = before;
    this.#versions = before ? before.#versions : [];
    this.#question = before ? before.#question : views.conversation.addQuestion(offers);
    this.#showQuestion();
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

  /** The message that another attempt replaces: the last one that the server has; `undefined` for none. */
  get messageId(): string | undefined {
    return this.#source.responseId === null ? this.#before?.messageId : this.#source.messageId;
  }

  /** Where the question is on the screen. */
  get questionView(): QuestionView {
    return this.#question;
  }

  /** Whether it has failed without content, and the attempt before it is on the screen again. */
  get isPutBack(): boolean {
    return this.#isPutBack;
  }

  /** The message, if its delivery failed and the server may have the whole answer. */
  get unread(): ChatQuestion | undefined {
    const { messageId, responseId, question } = this.#source;
    const isUnread = this.#isUndelivered && messageId !== undefined && responseId !== null;
    return isUnread ? { messageId, responseId, question } : undefined;
  }

  /** Whether the server was reached. */
  get wasReached(): boolean {
    return this.#wasReached;
  }

  /** Shows an event. Resolves at once; after the last event, when all is on the screen. */
  async show(event: ChatEvent): Promise<void> {
    if (event.type === "completed") await this.#complete(event);
    else if (event.type === "delta") this.#showText(event.text);
    else if (event.type === "part") this.#showPart(event.position, event.part);
    else this.#showProgress(event);
  }

  /** Shows an earlier answer at once. */
  restore({ text, parts, status, finishReason, error, versions }: ChatMessage, isLast: boolean): void {
    if (versions !== undefined) this.showVersions(versions);
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

  /** Shows the switch between this message and those that it replaces or is replaced by: `versions` are all of them. */
  showVersions(versions: readonly string[]): void {
    this.#versions = versions;
    this.#showQuestion();
  }

  /**
   * Ends an exchange with `error`. What has arrived stays, with the error below it. Returns whether the question was
   * rejected, and would be again unless it is changed.
   */
  async fail(error: unknown): Promise<boolean> {
    await this.#answer.end();
    if (this.#isLeft) return false;
    const { conversation, announcer, status } = this.#views;
    this.#isUndelivered = !isAnswerError(error) && !isGone(error);
    const hasText = !this.#answer.isEmpty;
    const explanation = explain(error, this.#strings, hasText);
    announcer.finish(explanation.what);
    if (hasText) this.#answer.note(this.#strings.incomplete, {});
    else this.#answer.element.remove();
    this.#putBack();
    status.show("error", hasText ? this.#strings.incomplete : undefined);
    const canEdit = this.#source.responseId === null && isRefusal(error) && !explanation.askAgain;
    conversation.addError({ ...explanation, canEdit }, this.#offers);
    return canEdit;
  }

  /** Ends an exchange whose page the server does not allow. */
  forbid(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.element.remove();
    this.#putBack();
    const explanation = inWords(ORIGIN_NOT_ALLOWED, this.#strings);
    this.#views.announcer.finish(explanation.what);
    this.#views.conversation.addError(explanation, this.#offers);
  }

  /** Stops showing the answer; its text so far stays. */
  leave(): void {
    this.#isLeft = true;
    void this.#answer.end();
    this.#answer.note(this.#strings.incomplete, {});
    this.#views.announcer.finish(this.#strings.answerIncomplete);
  }

  /** Removes the question and its answer. */
  remove(): void {
    this.#question.element.remove();
    this.#removeAnswer();
    this.#views.conversation.dropAside();
    this.#views.announcer.restart("");
  }

  /** Starts another attempt at this question: hides what came after it, and removes its error. */
  pass(): void {
    this.#views.conversation.removeError();
    this.#views.conversation.putAside(this.#end);
    this.#setPassing(true);
  }

  /** The last element on the screen that belongs to this question. */
  get #end(): HTMLElement {
    const { element } = this.#answer;
    if (element.isConnected) return element;
    return this.#before ? this.#before.#end : this.#question.element;
  }

  /** The attempt that is on the screen. */
  get #shown(): Exchange {
    return this.#before ? this.#before.#shown : this;
  }

  #showQuestion(): void {
    this.#question.offers = this.#offers;
    this.#question.show(this.question, this.#source.messageId, this.#versions);
  }

  /** Records that the server has accepted this attempt. */
  #addVersion(): void {
    const { messageId } = this.#source;
    if (messageId === undefined || this.#versions.includes(messageId)) return;
    this.showVersions([...this.#versions, messageId]);
  }

  /** Shows the attempt before this one again, since this one has no content. */
  #putBack(): void {
    if (this.#before === undefined) return;
    this.#isPutBack = true;
    this.#before.#setPassing(false);
    this.#before.#shown.showVersions(this.#versions);
    this.#views.conversation.bringBack();
  }

  /** Marks the answer as about to be replaced, or removes that mark. */
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
        if (this.#misses === 0) status.show(underWay, underWay === "waiting" ? this.#strings.sending : undefined);
        break;
      case "accepted":
        this.#answer.identify(event.responseId);
        this.#addVersion();
        this.#reached();
        if ((event.historyDropped ?? 0) > 0) {
          const { historyDropped, historyDroppedByModel } = this.#strings;
          const why = event.historyDroppedBy === "model" ? historyDroppedByModel : historyDropped;
          this.#views.conversation.noticeOnce(why, this.#answer.element);
        }
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
        status.showLost(this.#missed());
        break;
      case "resumed":
      case "polled":
        this.#reached();
        status.show(underWay);
        break;
    }
  }

  /** Describes the question's position in the queue. */
  #queued(position: number, expectedSeconds: number | null): string {
    return this.#strings.queued(position, expectedSeconds === null ? null : Math.max(1, expectedSeconds));
  }

  /** Describes why the server was not reached. */
  #missed(): string {
    if (navigator.onLine === false) return this.#strings.offline;
    return this.#wasReached && this.#misses === 1 ? this.#strings.connectionLost : this.#strings.unreachable;
  }

  /** Records that the server responds. */
  #reached(): void {
    this.#wasReached = true;
    this.#misses = 0;
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

  /** Removes the answer of the attempt before this one, since there is content. */
  #takeOver(): void {
    if (this.#before === undefined) return;
    this.#before.#removeAnswer();
    this.#before = undefined;
    this.#views.conversation.dropAside();
  }

  async #complete(event: Completed): Promise<void> {
    const tookMs = performance.now() - this.askedAt;
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

/** Describes the model's activity in this part; empty if it needs no status. */
function doingOf(part: ChatPart, strings: Strings): string {
  if (part.type === "reasoning") return strings.thinking;
  if (part.type !== "tool") return "";
  return part.result === undefined ? strings.usingTool(part.name) : strings.resultOfTool(part.name);
}
