import { AnswerView } from "./answer-view.ts";
import { type Extras, NO_EXTRAS } from "./extras/extras.ts";
import { button, made } from "./made.ts";
import type { Offers } from "./offers.ts";
import type { Explanation } from "./plain-language.ts";

/** How near to the end the reader must be, in pixels, for the conversation to follow the answer as it grows. */
const FOLLOW_WITHIN = 60;
/** How long browsers may take to tell screen readers what was added, in milliseconds. */
const QUIET_MS = 1_000;

/** The list of questions and answers, and what else is worth a line in it. */
export class ConversationView {
  readonly #scroller: HTMLElement;
  readonly #log: HTMLElement;
  readonly #noticed = new Set<string>();
  /** Brings the reader back to the end; shown while they are elsewhere. */
  readonly toEnd = button(
    { class: "quiet to-end", text: "↓ Latest", testId: "to-end", hidden: true, attributes: { title: "Go to the end" } },
    () => this.scrollToEnd(),
  );
  #last: AnswerView | undefined;
  #error: HTMLElement | undefined;
  #errorOffers: HTMLElement | undefined;
  #follows = true;
  /** What is added goes before this; behind everything where there is none. */
  #place: ChildNode | null = null;
  /** For the answers that are added from now on. */
  extras: Extras = NO_EXTRAS;

  /** `scroller` is what scrolls, and has the `log` in it. */
  constructor(scroller: HTMLElement, log: HTMLElement) {
    this.#scroller = scroller;
    this.#log = log;
    // Whoever scrolls up wants to read, and is not to be torn away.
    scroller.addEventListener("scroll", () => {
      this.#setFollows(scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_WITHIN);
    });
    new ResizeObserver(() => this.follow()).observe(scroller);
  }

  /** The text of the last answer, as it came. */
  get lastText(): string {
    return this.#last?.text ?? "";
  }

  get isEmpty(): boolean {
    return this.#log.childElementCount === 0;
  }

  addQuestion(question: string): HTMLElement {
    const attributes = { "aria-label": "Your question" };
    const element = made("article", { class: "question", text: question, attributes });
    this.#add(element);
    return element;
  }

  addAnswer(offers: Offers): AnswerView {
    const answer = new AnswerView(this.extras, () => this.follow(), offers);
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
  addError({ what, remedy, askAgain, goOn = false, canEdit = false }: Explanation, offers?: Offers): void {
    this.#errorOffers = made("div", { class: "offers", hidden: !(askAgain || goOn || canEdit) });
    if (goOn) this.#errorOffers.append(button({ class: "quiet", text: "Continue" }, () => offers?.goOn()));
    if (askAgain) this.#errorOffers.append(button({ class: "quiet", text: "Try again" }, () => offers?.again()));
    if (canEdit) this.#errorOffers.append(button({ class: "quiet", text: "Edit question" }, () => offers?.edit()));
    this.#error = made(
      "section",
      { class: "error", testId: "error", attributes: { "aria-label": "Problem" } },
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
    const fromEnd = this.#scroller.scrollHeight - this.#scroller.scrollTop;
    this.#place = this.#log.firstChild;
    this.addQuietly(add);
    this.#place = null;
    this.#scroller.scrollTop = this.#scroller.scrollHeight - fromEnd;
  }

  /** Takes the last error away: what failed is tried again. */
  removeError(): void {
    this.#error?.remove();
  }

  /** Goes to the end, if the reader is there to see what comes next. */
  follow(): void {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  scrollToEnd(): void {
    this.#setFollows(true);
    this.follow();
  }

  #add(element: HTMLElement): void {
    this.#log.insertBefore(element, this.#place);
    if (this.#place === null) this.scrollToEnd();
  }

  #setFollows(follows: boolean): void {
    this.#follows = follows;
    this.toEnd.hidden = follows;
  }
}
