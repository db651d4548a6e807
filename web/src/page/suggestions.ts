/** Questions to begin with, as the server offers them: each until it was asked. */
export class Suggestions {
  readonly #element: HTMLElement;
  readonly #ask: (question: string) => void;
  readonly #buttons = new Map<string, HTMLButtonElement>();
  readonly #asked = new Set<string>();
  #visible = true;

  constructor(element: HTMLElement, ask: (question: string) => void) {
    this.#element = element;
    this.#ask = ask;
  }

  /** Offers `questions` from now on, and no others. */
  offer(questions: readonly string[]): void {
    const fresh = questions.filter((question) => !this.#asked.has(question));
    if (fresh.join("\n") === [...this.#buttons.keys()].join("\n")) return;
    this.#buttons.clear();
    for (const question of fresh) this.#buttons.set(question, this.#button(question));
    this.#element.replaceChildren(...this.#buttons.values());
    this.setVisible(this.#visible);
  }

  /** No longer offers a question that was asked. */
  remove(question: string): void {
    this.#asked.add(question);
    this.#buttons.get(question)?.remove();
    this.#buttons.delete(question);
  }

  setVisible(visible: boolean): void {
    this.#visible = visible;
    this.#element.hidden = !visible || this.#buttons.size === 0;
  }

  #button(question: string): HTMLButtonElement {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = question;
    button.addEventListener("click", () => this.#ask(question));
    return button;
  }
}
