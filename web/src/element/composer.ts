import { button, made } from "./made.ts";

/** What the reader does here. */
export interface ComposerActions {
  ask(question: string): void;
  stop(): void;
}

/** The text box with its Ask and Stop buttons. */
export class Composer {
  readonly element: HTMLFormElement;
  readonly #actions: ComposerActions;
  readonly #question = made("textarea", {
    testId: "question",
    attributes: { id: "question", rows: "1", autocomplete: "off", enterkeyhint: "send" },
  });
  readonly #ask = made("button", { class: "primary", text: "Ask", testId: "ask", attributes: { type: "submit" } });
  readonly #stop: HTMLButtonElement;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#stop = button({ class: "primary stop", text: "Stop", testId: "stop", hidden: true }, () => actions.stop());
    const label = made("label", { class: "visually-hidden", text: "Your question", attributes: { for: "question" } });
    this.element = made("form", { class: "composer" }, label, this.#question, this.#ask, this.#stop);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#question.addEventListener("keydown", (event) => this.#onKey(event));
  }

  set placeholder(text: string) {
    this.#question.placeholder = text;
  }

  focus(): void {
    this.#question.focus();
  }

  /** Shows Stop in the place of Ask while an answer is on its way. A focus on what goes away moves to what comes. */
  setBusy(busy: boolean): void {
    const focused = this.#focused();
    const [goes, comes] = busy ? [this.#ask, this.#stop] : [this.#stop, this.#ask];
    comes.hidden = false;
    goes.hidden = true;
    if (focused === this.#question || focused === "elsewhere") return;
    if (busy) this.#stop.focus({ preventScroll: true });
    else if (focused === goes || focused === "nowhere") this.#question.focus({ preventScroll: true });
  }

  /** What has the focus: something in this element, nothing at all, or something else on the page. */
  #focused(): Element | "nowhere" | "elsewhere" {
    const root = this.element.getRootNode();
    const focused = document.activeElement;
    if (focused === null || focused === document.body) return "nowhere";
    if (!(root instanceof ShadowRoot)) return focused;
    // What is slotted, such as a suggestion, is in the page and in this element.
    if (root.host !== focused) return root.host.contains(focused) ? focused : "elsewhere";
    return root.activeElement ?? "nowhere";
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
