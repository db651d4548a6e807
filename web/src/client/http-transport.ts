import type { AnswerEvent, TransportName } from "./api.ts";
import { cancel, submit } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import type { Session } from "./session.ts";
import type { Transport, Wish } from "./transport.ts";

/** What all transports by HTTP have in common: there is no connection to open, and questions go out by a call. */
export abstract class HttpTransport implements Transport {
  abstract readonly name: TransportName;
  readonly isOpen = true;
  protected readonly session: Session;

  constructor(session: Session) {
    this.session = session;
  }

  async *deliver(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    yield* submit(this.session, inquiry);
    yield* this.follow(inquiry);
  }

  async tell(inquiry: Inquiry, wish: Wish): Promise<void> {
    if (wish === "cancel") await cancel(this.session, inquiry);
  }

  /** As {@link Transport.deliver}, of a question that the server has. */
  protected abstract follow(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void>;
}
