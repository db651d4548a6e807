import { isOfComposition } from "./composition.ts";
import { button, made } from "./made.ts";
import { ENGLISH, type Strings } from "./strings.ts";

/** The reader's actions in the text box. */
export interface ComposerActions {
  /** Returns whether it was asked; otherwise the text stays in the box. */
  ask(question: string): boolean;
  stop(): void;
  /** Editing has ended: the question is unchanged, or was asked. */
  endEdit(): void;
  /** The text in the box has changed. */
  type(text: string): void;
}

/** The text box with its Ask and Stop buttons. */
export class Composer {
  readonly element: HTMLFormElement;
  readonly #actions: ComposerActions;
  readonly #question = made("textarea", {
    testId: "question",
    attributes: { id: "question", rows: "1", autocomplete: "off", enterkeyhint: "send", dir: "auto" },
  });
  readonly #ask = made("button", { class: "primary", testId: "ask", attributes: { type: "submit" } });
  readonly #stop: HTMLButtonElement;
  readonly #editing: HTMLElement;
  /** The text in the box before an earlier question replaced it for editing. */
  #unsent = "";
  readonly #label = made("label", { class: "visually-hidden", attributes: { for: "question" } });
  readonly #editingSaid = made("span");
  readonly #leave: HTMLButtonElement;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#stop = button({ class: "primary stop", testId: "stop", hidden: true }, () => actions.stop());
    this.#leave = button({ class: "quiet", testId: "end-edit" }, () => this.endEdit());
    this.#editing = made("p", { class: "editing", hidden: true }, this.#editingSaid, this.#leave);
    this.element = made(
      "form",
      { class: "composer" },
      this.#editing,
      this.#label,
      this.#question,
      this.#ask,
      this.#stop,
    );
    this.strings = ENGLISH;
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#question.addEventListener("keydown", (event) => this.#onKey(event));
    this.#question.addEventListener("input", () => actions.type(this.#question.value));
  }

  set strings({ ask, stop, yourQuestion, editingQuestion, cancelEdit }: Strings) {
    this.#ask.textContent = ask;
    this.#stop.textContent = stop;
    this.#label.textContent = yourQuestion;
    this.#editingSaid.textContent = editingQuestion;
    this.#leave.textContent = cancelEdit;
  }

  set placeholder(text: string) {
    this.#question.placeholder = text;
  }

  get isEmpty(): boolean {
    return this.#question.value.trim() === "";
  }

  focus(): void {
    this.#question.focus({ preventScroll: true });
  }

  /** The text in the box. */
  get text(): string {
    return this.#question.value;
  }

  set text(text: string) {
    this.#question.value = text;
    this.#actions.type(text);
  }

  /** Puts an earlier question into the box for editing. */
  edit(question: string): void {
    if (this.#editing.hidden) this.#unsent = this.text;
    this.#editing.hidden = false;
    this.text = question;
    this.focus();
  }

  /** Shows Stop instead of Ask while an answer is running. A focus in this element moves to the button that remains. */
  setBusy(busy: boolean): void {
    const focused = this.#focused();
    const [goes, comes] = busy ? [this.#ask, this.#stop] : [this.#stop, this.#ask];
    comes.hidden = false;
    goes.hidden = true;
    if (focused === null || focused === this.#question) return;
    // With a keyboard the next question can be typed at once. On a touch screen a focus would open the keyboard.
    if (busy && !matchMedia("(hover: hover)").matches) this.#stop.focus({ preventScroll: true });
    else if (busy || focused === goes) this.#question.focus({ preventScroll: true });
  }

  /** The focused element in this one. Slotted elements of the page, such as a suggestion, count too. */
  #focused(): Element | null {
    const root = this.element.getRootNode();
    if (!(root instanceof ShadowRoot)) return null;
    const focused = document.activeElement;
    return root.activeElement ?? (focused !== root.host && root.host.contains(focused) ? focused : null);
  }

  #submit(): void {
    const question = this.#question.value.trim();
    if (question === "" || this.#ask.hidden) return;
    const isEdit = !this.#editing.hidden;
    if (this.#actions.ask(question) && !isEdit) this.text = "";
  }

  /** Ends editing and leaves the question unchanged. */
  endEdit(): void {
    if (this.#editing.hidden) return;
    this.#editing.hidden = true;
    this.#actions.endEdit();
    this.text = this.#unsent;
    this.#unsent = "";
    this.focus();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === "Escape" && !this.#editing.hidden && !isOfComposition(event)) {
      event.preventDefault();
      this.endEdit();
    }
    if (event.key !== "Enter" || event.shiftKey || isOfComposition(event)) return;
    event.preventDefault();
    this.#submit();
  }
}
