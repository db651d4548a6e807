import type { AnswerEvent } from "./api.ts";
import { HttpTransport } from "./http-transport.ts";
import type { Inquiry } from "./inquiry.ts";
import { SseDelivery } from "./sse-delivery.ts";

/** Server-sent events, read by `fetch` so that the token stays out of the address. */
export class SseTransport extends HttpTransport {
  readonly name = "sse";

  protected follow(inquiry: Inquiry, signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void> {
    const hear = () => {
      this.heardAt = Date.now();
    };
    return new SseDelivery(this.session, inquiry, signal, hear).run();
  }
}
