import { type ChatTransport, TRANSPORT_NAMES } from "../element/chat-client.ts";
import type { DeliveryStats } from "./delivery-stats.ts";
import { requiredElement } from "./required-element.ts";
import { Sparkline } from "./sparkline.ts";

const NONE = "–";

/** The strip of figures about the delivery of the present answer. */
export class StatsView {
  readonly #transport = requiredElement('[data-testid="transport"]', HTMLElement);
  readonly #firstToken = requiredElement('[data-testid="ttft"]', HTMLElement);
  readonly #jitter = requiredElement('[data-testid="jitter"]', HTMLElement);
  readonly #index = requiredElement('[data-testid="index"]', HTMLElement);
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
    show(this.#firstToken, stats.firstTokenMs, " ms");
    show(this.#jitter, stats.jitterMs, " ms");
    show(this.#index, stats.lastIndex < 0 ? undefined : stats.lastIndex);
    show(this.#joined, stats.joined);
    this.#sparkline.draw(stats.gaps, stats.paceMs);
  }
}

/** Shows a whole number with its unit; the bare number is in `data-value`. */
function show(element: HTMLElement, value: number | undefined, unit = ""): void {
  const rounded = value === undefined ? "" : String(Math.round(value));
  element.dataset.value = rounded;
  element.textContent = value === undefined ? NONE : rounded + unit;
}
