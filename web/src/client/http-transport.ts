import type { AnswerEvent, TransportName } from "./api.ts";
import { firstOf } from "./delay.ts";
import { cancel, submit } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Session } from "./session.ts";
import type { Transport, Wish } from "./transport.ts";

/** What all transports by HTTP have in common: there is no connection to open, and questions go out by a call. */
export abstract class HttpTransport implements Transport {
  abstract readonly name: TransportName;
  readonly isOpen = true;
  protected readonly session: Session;
  /** When anything came last. */
  protected heardAt = 0;
  #renewal = new AbortController();

  constructor(session: Session) {
    this.session = session;
  }

  async *deliver(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    for (;;) {
      this.#renewal = new AbortController();
      const { signal } = this.#renewal;
      this.heardAt = Date.now();
      try {
        const either = firstOf(inquiry.abandoned, signal);
        yield* submit(this.session, inquiry, either);
        return yield* this.follow(inquiry, either);
      } catch (error) {
        if (!signal.aborted || inquiry.abandoned.aborted) throw error;
      }
    }
  }

  async tell(inquiry: Inquiry, wish: Wish): Promise<void> {
    if (wish === "cancel") await cancel(this.session, inquiry);
  }

  doubt(): void {
    if (Date.now() - this.heardAt > LIMITS.doubtMs) this.#renewal.abort();
  }

  /** As {@link Transport.deliver}, of a question that the server has, until `signal` is aborted. */
  protected abstract follow(inquiry: Inquiry, signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void>;
}
