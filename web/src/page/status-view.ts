export type State = "idle" | "connecting" | "waiting" | "streaming" | "done" | "cancelled" | "error";

const LABELS: Readonly<Record<State, string>> = {
  idle: "Ready",
  connecting: "Connecting…",
  waiting: "Waiting for the first token…",
  streaming: "Streaming",
  done: "Complete",
  cancelled: "Stopped",
  error: "Not delivered",
};

/** The one place that says what is going on. */
export class StatusView {
  readonly #element: HTMLElement;
  readonly #label: HTMLElement;

  constructor(element: HTMLElement) {
    this.#element = element;
    this.#label = document.createElement("span");
    element.append(this.#label);
  }

  /** Shows a state, in its usual words or in `label`. */
  show(state: State, label: string = LABELS[state]): void {
    this.#element.dataset.state = state;
    this.#label.textContent = label;
  }
}
