import { made } from "./made.ts";

export type State = "idle" | "connecting" | "waiting" | "streaming" | "done" | "cancelled" | "error";

const LABELS: Readonly<Record<State, string>> = {
  idle: "Ready",
  connecting: "Connecting…",
  waiting: "Waiting for the first word…",
  streaming: "Streaming",
  done: "Complete",
  cancelled: "Stopped",
  error: "Not delivered",
};

/** The one place that says what is going on. */
export class StatusView {
  readonly element: HTMLElement;
  readonly #label = made("span");

  constructor() {
    this.element = made("p", { class: "status", testId: "status" }, this.#label);
  }

  /** Shows a state, in its usual words or in `label`. */
  show(state: State, label: string = LABELS[state]): void {
    this.element.dataset.state = state;
    this.#label.textContent = label;
  }
}
