import { AnswerView } from "./answer-view.ts";
import { type Extras, NO_EXTRAS } from "./extras/extras.ts";
import { button, made } from "./made.ts";
import type { Offers } from "./offers.ts";
import type { Explanation } from "./plain-language.ts";
import { ReadingPosition } from "./reading-position.ts";
import type { Strings } from "./strings.ts";

/** How long browsers may take to tell screen readers what was added, in milliseconds. */
const QUIET_MS = 1_000;

/** The list of questions and answers, and what else is worth a line in it. */
export class ConversationView {
  readonly #log: HTMLElement;
  readonly #noticed = new Set<string>();
  /** Brings the reader back to the end; shown while they are elsewhere. */
  readonly toEnd = button({ class: "quiet to-end", testId: "to-end", hidden: true }, () => this.position.goToEnd());
  #last: AnswerView | undefined;
  #error: HTMLElement | undefined;
  #errorOffers: HTMLElement | undefined;
  /** Where the reader is. */
  readonly position: ReadingPosition;
  /** What is added goes before this; behind everything where there is none. */
  #place: ChildNode | null = null;
  #extras = NO_EXTRAS;

  /** `scroller` is what scrolls, and has the `log` in it. */
  constructor(scroller: HTMLElement, log: HTMLElement) {
    this.#log = log;
    this.position = new ReadingPosition(scroller, (follows) => {
      this.toEnd.hidden = follows;
    });
  }

  /** For the answers that are added from now on. */
  set extras(extras: Extras) {
    this.#extras = extras;
    this.toEnd.textContent = `↓ ${this.strings.latest}`;
    this.toEnd.title = this.strings.goToEnd;
  }

  get strings(): Strings {
    return this.#extras.strings;
  }

  /** The text of the last answer, as it came. */
  get lastText(): string {
    return this.#last?.text ?? "";
  }

  get isEmpty(): boolean {
    return this.#log.childElementCount === 0;
  }

  addQuestion(question: string): HTMLElement {
    const attributes = { "aria-label": this.strings.yourQuestion, "data-not-kept": this.strings.questionNotKept };
    const element = made("article", { class: "question", text: question, attributes });
    this.#add(element);
    return element;
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

  /** Adds a line above `element`, unless it was said before in this conversation. */
  noticeOnce(text: string, element: HTMLElement): void {
    if (this.#noticed.has(text)) return;
    this.#noticed.add(text);
    element.before(made("p", { class: "notice", text }));
  }

  /** Shows an error, with those of the offers that may help. */
  addError({ what, remedy, askAgain, goOn = false }: Explanation, offers?: Offers): void {
    this.#errorOffers = made("div", { class: "offers", hidden: !(askAgain || goOn) });
    if (goOn) this.#errorOffers.append(button({ class: "quiet", text: this.strings.goOn }, () => offers?.goOn()));
    if (askAgain)
      this.#errorOffers.append(button({ class: "quiet", text: this.strings.tryAgain }, () => offers?.again()));
    this.#error = made(
      "section",
      { class: "error", testId: "error", attributes: { "aria-label": this.strings.problem } },
      made("strong", { text: what }),
      made("p", { text: remedy }),
      this.#errorOffers,
    );
    this.#add(this.#error);
  }

  /** Takes everything away. */
  clear(): void {
    this.#log.replaceChildren();
    this.#last = this.#error = this.#errorOffers = undefined;
  }

  /** Has `add` add what screen readers are not to read out: it was said before. */
  addQuietly(add: () => void): void {
    this.#log.setAttribute("aria-live", "off");
    add();
    setTimeout(() => this.#log.removeAttribute("aria-live"), QUIET_MS);
  }

  /** Has `add` add what was said before all that is there; what the reader looks at stays where it is. */
  addEarlier(add: () => void): void {
    this.position.addAbove(() => {
      this.#place = this.#log.firstChild;
      this.addQuietly(add);
      this.#place = null;
    });
  }

  /** Takes the last error away: what failed is tried again. */
  removeError(): void {
    this.#error?.remove();
  }

  /** Goes to the end, if the reader is there to see what comes next. */
  follow(): void {
    this.position.keep();
  }

  #add(element: HTMLElement): void {
    this.#log.insertBefore(element, this.#place);
    if (this.#place === null) this.position.goToEnd();
  }
}
