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

/** What is shown of a connection while nothing is asked. */
export function connectionState(state: ChatConnection, strings: Strings): readonly [State, string?] {
  if (state === "connecting") return ["connecting"];
  // Of an answer under way its own events tell that it is tried again; without one the next question does.
  if (state === "waiting") return ["idle", strings.connectsWhenAsked];
  return state === "open" ? ["idle"] : ["error", strings.closed];
}

/** The one place that says what is going on. */
export class StatusView {
  readonly element: HTMLElement;
  readonly #label = made("span");
  /** Beside it, for a reader who does not want to wait for the next try. */
  readonly reconnect: HTMLButtonElement;
  #strings = ENGLISH;
  /** The state that is shown in its usual words, if it is. */
  #usual: State | undefined;

  /** `reconnect` tries at once what would be tried a little later. */
  constructor(reconnect: () => void = () => {}) {
    this.reconnect = button({ class: "quiet reconnect", testId: "reconnect", hidden: true }, reconnect);
    this.element = made("p", { class: "status", testId: "status" }, this.#label);
  }

  set strings(strings: Strings) {
    this.#strings = strings;
    this.reconnect.textContent = strings.reconnectNow;
    if (this.#usual !== undefined) this.show(this.#usual);
  }

  /** Shows a state, in its usual words or in `label`. */
  show(state: State, label?: string): void {
    this.#usual = label === undefined ? state : undefined;
    this.element.dataset.state = state;
    this.#label.textContent = label ?? this.#strings[LABELS[state]];
    this.reconnect.hidden = true;
  }

  /** Says why there is no connection; it is tried for, and the reader may have that at once. */
  showLost(why: string): void {
    this.show("connecting", why);
    this.reconnect.hidden = false;
  }
}
