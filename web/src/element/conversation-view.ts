import { AnswerView } from "./answer-view.ts";
import { button, made } from "./made.ts";
import type { Explanation } from "./plain-language.ts";

/** How near to the end the reader must be, in pixels, for the conversation to follow the answer as it grows. */
const FOLLOW_WITHIN = 60;

/** The list of questions and answers, and what else is worth a line in it. */
export class ConversationView {
  readonly #scroller: HTMLElement;
  readonly #log: HTMLElement;
  readonly #noticed = new Set<string>();
  #last: AnswerView | undefined;
  #follows = true;

  /** `scroller` is what scrolls, and has the `log` in it. */
  constructor(scroller: HTMLElement, log: HTMLElement) {
    this.#scroller = scroller;
    this.#log = log;
    // Whoever scrolls up wants to read, and is not to be torn away.
    scroller.addEventListener("scroll", () => {
      this.#follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_WITHIN;
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

  addAnswer(onRetry: () => void): AnswerView {
    this.#last?.setRetry(false);
    this.#last = new AnswerView(() => this.follow(), onRetry);
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

  /** Shows an error; `onAskAgain` is called when the reader chooses to, and returns whether that could be done. */
  addError(explanation: Explanation, onAskAgain: () => boolean): void {
    const element = made(
      "section",
      { class: "error", testId: "error", attributes: { "aria-label": "Problem" } },
      made("strong", { text: explanation.what }),
      made("p", { text: explanation.remedy }),
    );
    if (explanation.askAgain) {
      const again = button({ class: "quiet", text: "Ask again" }, () => {
        if (onAskAgain()) again.remove();
      });
      element.append(again);
    }
    this.#log.append(element);
    this.scrollToEnd();
  }

  /** Goes to the end, if the reader is there to see what comes next. */
  follow(): void {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  scrollToEnd(): void {
    this.#follows = true;
    this.follow();
  }
}
