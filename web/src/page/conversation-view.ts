import { AnswerView } from "./answer-view.ts";
import type { Explanation } from "./plain-language.ts";

/** How near to the end the reader must be, in pixels, for the page to follow the answer as it grows. */
const FOLLOW_WITHIN = 120;

/** The list of questions and answers, and what else is worth a line in it. */
export class ConversationView {
  readonly #log: HTMLElement;
  readonly #noticed = new Set<string>();

  constructor(log: HTMLElement) {
    this.#log = log;
  }

  addQuestion(question: string): void {
    const element = document.createElement("article");
    element.className = "question";
    element.setAttribute("aria-label", "Your question");
    element.textContent = question;
    this.#log.append(element);
    this.scrollToEnd();
  }

  addAnswer(): AnswerView {
    const view = new AnswerView();
    this.#log.append(view.element);
    this.scrollToEnd();
    return view;
  }

  /** Adds a line above `element`, unless it was said before in this conversation. */
  noticeOnce(text: string, element: HTMLElement): void {
    if (this.#noticed.has(text)) return;
    this.#noticed.add(text);
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.textContent = text;
    element.before(notice);
  }

  /** Shows an error; `onAskAgain` is called when the reader chooses to. */
  addError(explanation: Explanation, onAskAgain: () => void): void {
    const element = document.createElement("section");
    element.className = "error";
    element.dataset.testid = "error";
    element.setAttribute("aria-label", "Problem");
    const what = document.createElement("strong");
    what.textContent = explanation.what;
    const remedy = document.createElement("p");
    remedy.textContent = explanation.remedy;
    element.append(what, remedy);
    if (explanation.askAgain) element.append(askAgainButton(onAskAgain));
    this.#log.append(element);
    this.scrollToEnd();
  }

  /** Whether the reader is at the end, and so wants to see what comes next. */
  get isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
    return scrollHeight - scrollTop - clientHeight < FOLLOW_WITHIN;
  }

  scrollToEnd(): void {
    document.documentElement.scrollTop = document.documentElement.scrollHeight;
  }
}

function askAgainButton(onAskAgain: () => void): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Ask again";
  button.addEventListener("click", () => {
    button.remove();
    onAskAgain();
  });
  return button;
}
