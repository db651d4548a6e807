import { AnswerReading } from "./answer-reading.ts";
import type { AnswerEvent } from "./api.ts";
import { ConnectionError, isEvenflowError } from "./errors.ts";
import { EventStream } from "./event-stream.ts";
import { pathOf } from "./http-question.ts";
import { HttpTransport } from "./http-transport.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import { isFinal, poll } from "./poll.ts";
import { type Arrival, readFrame } from "./read-frame.ts";

/** Something on the way keeps what the server has sent: a poll has brought what the stream has not. */
export class HeldBackError extends ConnectionError {}

/** What comes over an event stream; `null` stands for a sign of life. */
type Letters = Mailbox<Arrival | null>;

/** Server-sent events, read by `fetch` so that the token stays out of the address. */
export class SseTransport extends HttpTransport {
  readonly name = "sse";

  protected async *follow(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    const end = new AbortController();
    const letters: Letters = new Mailbox();
    const reading = new AnswerReading(inquiry, { isOpen: false, send: askAgain });
    const begun = inquiry.log.lastIndex;
    void this.#read(inquiry, letters, AbortSignal.any([inquiry.abandoned, end.signal]));
    try {
      while (!reading.ended) {
        const arrival = await this.#next(inquiry, letters, begun);
        if (arrival !== null) yield* reading.receive(arrival);
      }
    } finally {
      end.abort();
    }
  }

  async #read({ responseId = "", log }: Inquiry, letters: Letters, signal: AbortSignal): Promise<void> {
    const path = `${pathOf(responseId)}/events?after=${log.lastIndex}&epoch=${log.epoch}`;
    const events = new EventStream();
    try {
      const { body } = await this.session.open(path, { signal });
      const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
        letters.put(null);
        for (const data of events.take(part.value)) letters.put(readFrame(data));
      }
      letters.fail(new ConnectionError("the connection is lost"));
    } catch (error) {
      letters.fail(isEvenflowError(error) ? error : new ConnectionError("the connection is lost"));
    }
  }

  /**
   * What comes next. After a silence a poll tells whether there is anything, which a proxy then keeps to itself; unless the
   * stream has brought something behind the index `begun`: then it is lost, as when the browser had frozen the tab.
   */
  async #next(inquiry: Inquiry, letters: Letters, begun: number): Promise<Arrival | null> {
    for (let polls = 0; polls < LIMITS.quietPolls; polls += 1) {
      const arrival = await letters.take(LIMITS.quietMs * 2 ** polls);
      if (arrival !== undefined) return arrival;
      const found = await poll(this.session, inquiry, 0);
      if (found.metadata.next_index <= inquiry.log.lastIndex + 1 && !isFinal(found)) continue;
      const late = await letters.take(LIMITS.heldBackMs);
      if (late !== undefined) return late;
      if (inquiry.log.lastIndex > begun) break;
      throw new HeldBackError("held back");
    }
    throw new ConnectionError("the connection is lost");
  }
}

/** There is no way back over a stream: what is missing is asked for with the next one. */
function askAgain(): never {
  throw new ConnectionError("a part is missing");
}
