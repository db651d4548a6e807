import type { ChatEvent, ChatTransport } from "../element/chat-client.ts";
import { DeliveryStats } from "./delivery-stats.ts";
import type { StatsView } from "./stats-view.ts";

/** Measures the delivery of each answer as it arrives, before the smoother, and shows the figures. */
export class DeliveryView {
  readonly #view: StatsView;
  #stats = new DeliveryStats(0);
  #polls = 0;
  /** The way that is tried, or that the answer comes by. */
  #transport: ChatTransport | undefined;

  constructor(view: StatsView) {
    this.#view = view;
  }

  /** A question was asked. */
  begin(): void {
    this.#stats = new DeliveryStats(performance.now());
    this.#polls = 0;
    this.#view.showPolls(0);
    this.#view.showDelivery(this.#stats);
  }

  show(event: ChatEvent): void {
    switch (event.type) {
      case "transport":
        this.#transport = event.transport;
        break;
      case "accepted":
      case "resumed":
        this.#showTransport();
        break;
      case "delta":
        this.#showTransport();
        this.#stats.record(performance.now(), event.from, event.index);
        this.#view.showDelivery(this.#stats);
        break;
      case "polled":
        this.#polls += 1;
        this.#showTransport();
        this.#view.showPolls(this.#polls);
        break;
    }
  }

  /** Something has come by it. */
  #showTransport(): void {
    if (this.#transport !== undefined) this.#view.showTransport(this.#transport);
  }
}
