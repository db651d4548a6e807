import type { ChatConnection } from "./chat-client.ts";
import { button, made } from "./made.ts";
import { ENGLISH, type Strings } from "./strings.ts";

export type State = "idle" | "connecting" | "waiting" | "streaming" | "done" | "cancelled" | "error";

const LABELS = {
  idle: "ready",
  connecting: "connecting",
  waiting: "waiting",
  streaming: "streaming",
  done: "complete",
  cancelled: "stopped",
  error: "notDelivered",
} as const satisfies Readonly<Record<State, keyof Strings>>;

/** The status of a connection while no answer is running. */
export function connectionState(state: ChatConnection, strings: Strings): readonly [State, string?] {
  if (state === "connecting") return ["connecting"];
  // A running answer has its own events for a retry; otherwise the next question connects.
  if (state === "waiting") return ["idle", strings.connectsWhenAsked];
  return state === "open" ? ["idle"] : ["error", strings.closed];
}

/** The status line. */
export class StatusView {
  readonly element: HTMLElement;
  readonly #label = made("span");
  /** A button beside it, which retries at once. */
  readonly reconnect: HTMLButtonElement;
  #strings = ENGLISH;
  /** The state that is shown with its usual text, if any. */
  #usual: State | undefined;

  /** `reconnect` retries at once. */
  constructor(reconnect: () => void = () => {}) {
    this.reconnect = button({ class: "quiet reconnect", testId: "reconnect", hidden: true }, reconnect);
    this.element = made("p", { class: "status", testId: "status" }, this.#label);
  }

  set strings(strings: Strings) {
    this.#strings = strings;
    this.reconnect.textContent = strings.reconnectNow;
    if (this.#usual !== undefined) this.show(this.#usual);
  }

  /** Shows a state, with its usual text or `label`. */
  show(state: State, label?: string): void {
    this.#usual = label === undefined ? state : undefined;
    this.element.dataset.state = state;
    this.#label.textContent = label ?? this.#strings[LABELS[state]];
    this.reconnect.hidden = true;
  }

  /** Shows why there is no connection, with a button that retries at once. */
  showLost(why: string): void {
    this.show("connecting", why);
    this.reconnect.hidden = false;
  }
}
