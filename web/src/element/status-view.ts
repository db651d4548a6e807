import type { ChatConnection } from "./chat-client.ts";
import { button, made } from "./made.ts";

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

/** What is shown of a connection while nothing is asked. */
export const CONNECTION_STATES: Readonly<Record<ChatConnection, readonly [State, string?]>> = {
  connecting: ["connecting"],
  open: ["idle"],
  // Of an answer under way its own events tell that it is tried again; without one the next question does.
  waiting: ["idle", "Connects when you ask"],
  closed: ["error", "Closed"],
};

/** The one place that says what is going on. */
export class StatusView {
  readonly element: HTMLElement;
  readonly #label = made("span");
  /** Beside it, for a reader who does not want to wait for the next try. */
  readonly reconnect: HTMLButtonElement;

  /** `reconnect` tries at once what would be tried a little later. */
  constructor(reconnect: () => void = () => {}) {
    const given = { class: "quiet reconnect", text: "Reconnect now", testId: "reconnect", hidden: true };
    this.reconnect = button(given, reconnect);
    this.element = made("p", { class: "status", testId: "status" }, this.#label);
  }

  /** Shows a state, in its usual words or in `label`. */
  show(state: State, label: string = LABELS[state]): void {
    this.element.dataset.state = state;
    this.#label.textContent = label;
    this.reconnect.hidden = true;
  }

  /** Says why there is no connection; it is tried for, and the reader may have that at once. */
  showLost(why: string): void {
    this.show("connecting", why);
    this.reconnect.hidden = false;
  }
}
