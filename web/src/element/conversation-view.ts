import { AnswerView } from "./answer-view.ts";
import { ALL_EXTRAS, type Extras } from "./extras/extras.ts";
import { button, made } from "./made.ts";
import type { Offers } from "./offers.ts";
import type { Explanation } from "./plain-language.ts";
import { QuestionView } from "./question-view.ts";
import { ReadingPosition } from "./reading-position.ts";
import type { Strings } from "./strings.ts";

/** How long browsers may take to announce an addition to screen readers, in milliseconds. */
const QUIET_MS = 1_000;

/** The list of questions and answers, with errors and notices. */
export class ConversationView {
  readonly #log: HTMLElement;
  readonly #noticed = new Set<string>();
  /** Scrolls to the end; shown while the reader is elsewhere. */
  readonly toEnd = button({ class: "quiet to-end", testId: "to-end", hidden: true }, () => this.position.goToEnd());
  #last: AnswerView | undefined;
  #error: HTMLElement | undefined;
  #errorOffers: HTMLElement | undefined;
  /** The elements after a question that is asked again, until its new answer has content. */
  #aside: HTMLElement[] = [];
  /** The reader's scroll position. */
  readonly position: ReadingPosition;
  /** New elements are inserted before this one, or at the end without one. */
  #place: ChildNode | null = null;
  #extras = ALL_EXTRAS;

  /** `scroller` is the scrolling element around `log`. */
  constructor(scroller: HTMLElement, log: HTMLElement) {
    this.#log = log;
    this.position = new ReadingPosition(scroller, (follows) => {
      this.toEnd.hidden = follows;
    });
  }

  /** For answers that are added from now on. */
  set extras(extras: Extras) {
    this.#extras = extras;
    this.toEnd.textContent = `↓ ${this.strings.latest}`;
    this.toEnd.title = this.strings.goToEnd;
  }

  get strings(): Strings {
    return this.#extras.strings;
  }

  /** The source of the last answer. */
  get lastText(): string {
    return this.#last?.text ?? "";
  }

  get isEmpty(): boolean {
    return this.#log.childElementCount === 0;
  }

  addQuestion(offers: Offers): QuestionView {
    const question = new QuestionView(offers, this.strings);
    this.#add(question.element);
    return question;
  }

  addAnswer(offers: Offers): AnswerView {
    const answer = new AnswerView(this.#extras, () => this.follow(), offers);
    this.#add(answer.element);
    if (this.#place !== null) return answer;
    this.#last?.endOffers();
    this.#errorOffers?.remove();
    this.#last = answer;
    return answer;
  }

  /** Adds a line above `element`, unless this conversation already has it. */
  noticeOnce(text: string, element: HTMLElement): void {
    if (this.#noticed.has(text)) return;
    this.#noticed.add(text);
    element.before(made("p", { class: "notice", text }));
  }

  /** Shows an error, with those choices that may help. */
  addError({ what, remedy, askAgain, goOn = false, canEdit = false }: Explanation, offers?: Offers): void {
    const { strings } = this;
    this.#errorOffers = made("div", { class: "offers", hidden: !(askAgain || goOn || canEdit) });
    if (goOn) this.#errorOffers.append(button({ class: "quiet", text: strings.goOn }, () => offers?.goOn()));
    if (askAgain) this.#errorOffers.append(button({ class: "quiet", text: strings.tryAgain }, () => offers?.again()));
    if (canEdit) this.#errorOffers.append(button({ class: "quiet", text: strings.editQuestion }, () => offers?.edit()));
    this.#error = made(
      "section",
      { class: "error", testId: "error", attributes: { "aria-label": strings.problem } },
      made("strong", { text: what }),
      made("p", { text: remedy }),
      this.#errorOffers,
    );
    this.#add(this.#error);
  }

  /** Hides the elements after `element`, until another version replaces them. */
  putAside(element: Element): void {
    for (let next = element.nextElementSibling; next instanceof HTMLElement; next = next.nextElementSibling) {
      if (!next.hidden) this.#aside.push(next);
      next.hidden = true;
    }
  }

  /** Shows the hidden elements again, since nothing has replaced them. */
  bringBack(): void {
    for (const element of this.#aside) element.hidden = false;
    this.#aside = [];
  }

  /** Removes the hidden elements: they belong to another version of the conversation. */
  dropAside(): void {
    for (const element of this.#aside) element.remove();
    this.#aside = [];
  }

  /** Whether `question` is the last one. */
  isLast(question: QuestionView): boolean {
    return [...this.#log.querySelectorAll(".asked:not([hidden])")].at(-1) === question.element;
  }

  /** Sets whether an answer is running: then nothing else can be asked. */
  setBusy(busy: boolean): void {
    this.#log.classList.toggle("busy", busy);
  }

  /** Removes everything. */
  clear(): void {
    this.#log.replaceChildren();
    this.#noticed.clear();
    this.#last = this.#error = this.#errorOffers = undefined;
    this.#aside = [];
  }

  /** Runs `add`, whose additions are earlier messages that screen readers must not announce. */
  addQuietly(add: () => void): void {
    this.#log.setAttribute("aria-live", "off");
    add();
    setTimeout(() => this.#log.removeAttribute("aria-live"), QUIET_MS);
  }

  /** Runs `add`, which adds earlier messages above all others. The scroll position stays. */
  addEarlier(add: () => void): void {
    this.position.addAbove(() => {
      this.#place = this.#log.firstChild;
      this.addQuietly(add);
      this.#place = null;
    });
  }

  /** Redraws the conversation with `draw`. The element that it returns stays where `before` was on the screen. */
  redraw(before: HTMLElement, draw: () => HTMLElement | undefined): void {
    const top = before.getBoundingClientRect().top;
    this.clear();
    const after = draw();
    if (after !== undefined) this.position.bring(after, top);
  }

  /** Removes the last error, since the question is tried again. */
  removeError(): void {
    this.#error?.remove();
  }

  /** Scrolls to the end, if the reader is there to see what comes next. */
  follow(): void {
    this.position.keep();
  }

  #add(element: HTMLElement): void {
    this.#log.insertBefore(element, this.#place);
    if (this.#place === null) this.position.goToEnd();
  }
}
