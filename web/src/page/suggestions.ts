const QUESTIONS = [
  "What is Evenflow?",
  "How does it treat slow readers?",
  "What happens when I close the tab?",
  "How do I use it from my OpenAI code?",
];

/** Questions to begin with, each offered until it was asked. */
export class Suggestions {
  readonly #element: HTMLElement;
  readonly #buttons = new Map<string, HTMLButtonElement>();

  constructor(element: HTMLElement, ask: (question: string) => void) {
    this.#element = element;
    for (const question of QUESTIONS) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = question;
      button.addEventListener("click", () => ask(question));
      this.#buttons.set(question, button);
      element.append(button);
    }
  }

  /** No longer offers a question that was asked. */
  remove(question: string): void {
    this.#buttons.get(question)?.remove();
    this.#buttons.delete(question);
  }

  setVisible(visible: boolean): void {
    this.#element.hidden = !visible || this.#buttons.size === 0;
  }
}
