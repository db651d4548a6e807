import type { ChatTransport } from "../element/chat-client.ts";
import type { DeliveryStats } from "./delivery-stats.ts";
import { requiredElement } from "./required-element.ts";
import { Sparkline } from "./sparkline.ts";

const NONE = "–";
const TRANSPORT_NAMES: Readonly<Record<ChatTransport, string>> = {
  websocket: "WebSocket",
  sse: "Event stream",
  "long-poll": "Long-poll",
};

/** The strip of figures about the delivery of the present answer. */
export class StatsView {
  readonly #transport = requiredElement('[data-testid="transport"]', HTMLElement);
  readonly #firstToken = requiredElement('[data-testid="ttft"]', HTMLElement);
  readonly #jitter = requiredElement('[data-testid="jitter"]', HTMLElement);
  readonly #pieces = requiredElement('[data-testid="pieces"]', HTMLElement);
  readonly #joined = requiredElement('[data-testid="joined"]', HTMLElement);
  readonly #polls = requiredElement('[data-testid="polls"]', HTMLElement);
  readonly #pollsCell = requiredElement("#polls-cell", HTMLElement);
  readonly #sparkline = new Sparkline(requiredElement("#gaps", SVGSVGElement));

  showTransport(transport: ChatTransport): void {
    this.#transport.textContent = TRANSPORT_NAMES[transport];
    this.#transport.dataset.value = transport;
    this.#pollsCell.hidden = transport !== "long-poll";
  }

  showPolls(count: number): void {
    show(this.#polls, count);
  }

  showDelivery(stats: DeliveryStats): void {
    show(this.#firstToken, stats.firstTokenMs, (ms) =>
      ms < 95 ? "within 0.1 s" : `after ${(ms / 1_000).toFixed(1)} s`,
    );
    show(this.#jitter, stats.jitterMs, (ms) => `± ${Math.round(ms)} ms`);
    show(this.#pieces, stats.lastIndex < 0 ? undefined : stats.lastIndex + 1);
    show(this.#joined, stats.joined);
    this.#sparkline.draw(stats.gaps, stats.paceMs);
  }
}

/** Shows a number in these words; the bare number, rounded, is in `data-value`. */
function show(element: HTMLElement, value: number | undefined, words: (value: number) => string = String): void {
  element.dataset.value = value === undefined ? "" : String(Math.round(value));
  element.textContent = value === undefined ? NONE : words(value);
}
