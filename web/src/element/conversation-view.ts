import { AnswerView } from "./answer-view.ts";
import { button, made } from "./made.ts";
import type { Offers } from "./offers.ts";
import type { Explanation } from "./plain-language.ts";

/** How near to the end the reader must be, in pixels, for the conversation to follow the answer as it grows. */
const FOLLOW_WITHIN = 60;

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

  addQuestion(question: string): HTMLElement {
    const attributes = { "aria-label": "Your question" };
    const element = made("article", { class: "question", text: question, attributes });
    this.#log.append(element);
    this.scrollToEnd();
    return element;
  }

  addAnswer(offers: Offers): AnswerView {
    this.#last?.endOffers();
    this.#errorOffers?.remove();
    this.#last = new AnswerView(() => this.follow(), offers);
    this.#log.append(this.#last.element);
    this.scrollToEnd();
    return this.#last;
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
    if (goOn) this.#errorOffers.append(button({ class: "quiet", text: "Go on" }, () => offers?.goOn()));
    if (askAgain) this.#errorOffers.append(button({ class: "quiet", text: "Try again" }, () => offers?.again()));
    this.#error = made(
      "section",
      { class: "error", testId: "error", attributes: { "aria-label": "Problem" } },
      made("strong", { text: what }),
      made("p", { text: remedy }),
      this.#errorOffers,
    );
    this.#log.append(this.#error);
    this.scrollToEnd();
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

  #setFollows(follows: boolean): void {
    this.#follows = follows;
    this.toEnd.hidden = follows;
  }
}
