import { requiredElement } from "./required-element.ts";

/** What the reader does here. */
export interface ComposerActions {
  ask(question: string): void;
  stop(): void;
}

/** The text box with its Ask and Stop buttons. */
export class Composer {
  readonly #form = requiredElement("#composer", HTMLFormElement);
  readonly #question = requiredElement('[data-testid="question"]', HTMLTextAreaElement);
  readonly #ask = requiredElement('[data-testid="ask"]', HTMLButtonElement);
  readonly #stop = requiredElement('[data-testid="stop"]', HTMLButtonElement);
  readonly #actions: ComposerActions;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#question.addEventListener("keydown", (event) => this.#onKey(event));
    this.#stop.addEventListener("click", () => actions.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.#stop.hidden) actions.stop();
    });
  }

  /** Shows Stop in the place of Ask while an answer is on its way, and keeps the keyboard's focus there. */
  setBusy(busy: boolean): void {
    const [from, to] = busy ? [this.#ask, this.#stop] : [this.#stop, this.#ask];
    const focusIsLost = document.activeElement === from || document.activeElement === document.body;
    to.hidden = false;
    from.hidden = true;
    if (focusIsLost) (busy ? to : this.#question).focus({ preventScroll: true });
  }

  #submit(): void {
    const question = this.#question.value.trim();
    if (question === "" || this.#ask.hidden) return;
    this.#question.value = "";
    this.#actions.ask(question);
  }

  #onKey(event: KeyboardEvent): void {
    // While an input method is composing, Enter chooses a word.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#submit();
  }
}
