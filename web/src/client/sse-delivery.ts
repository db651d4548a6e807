import { AnswerReading } from "./answer-reading.ts";
import type { AnswerEvent } from "./api.ts";
import { backoffMs } from "./backoff.ts";
import { delay, firstOf } from "./delay.ts";
import { ConnectionError, isEvenflowError } from "./errors.ts";
import { EventStream, moveAfterMs } from "./event-stream.ts";
import { hedged } from "./hedge.ts";
import { pathOf } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import { isFinal, openPoll, type Poll, readPoll } from "./poll.ts";
import { type Arrival, readFrame } from "./read-frame.ts";
import type { Session } from "./session.ts";
import { BlockedError } from "./transport.ts";

/** Something on the way holds the stream back: a poll has brought more than the stream. */
export class HeldBackError extends BlockedError {}

/** One stream of events, which is read until it is aborted. */
type Line = AbortController;

/** What a stream has brought; `null` stands for a sign of life, and an error for its end. */
interface Letter {
  readonly line: Line;
  readonly arrival: Arrival | Error | null;
}

const LOST = "the connection is lost";

/**
 * One answer over streams of events. When its server is leaving, the next stream is opened while the present one still
 * delivers, and read as soon as it begins, as over a WebSocket.
 */
export class SseDelivery {
  readonly #session: Session;
  readonly #inquiry: Inquiry;
  readonly #hear: () => void;
  readonly #letters = new Mailbox<Letter>();
  readonly #reading: AnswerReading;
  readonly #end = new AbortController();
  readonly #signal: AbortSignal;
  /** The entries held before the first of these streams. */
  readonly #begun: number;
  #line: Line;
  #lineLoss: Error | undefined;
  #next: Line | undefined;
  #isMovingOn = false;
  #failures = 0;
  /** Whether text comes, event by event. */
  #flows = false;
  /** Whether the server may have been out of reach when the first stream was opened. */
  readonly #isSuspect: boolean;
  /** Whether the present stream has begun. */
  #hasHead = false;
  /** A poll found that the server can't be reached at all. */
  #isUnreached = false;

  /** Reads until `signal` is aborted; `hear` is called with every sign of the server. */
  constructor(session: Session, inquiry: Inquiry, signal: AbortSignal, hear: () => void) {
    this.#session = session;
    this.#inquiry = inquiry;
    this.#hear = hear;
    this.#reading = new AnswerReading(inquiry, { isOpen: false, send: askAgain });
    this.#signal = firstOf(signal, this.#end.signal);
    this.#begun = inquiry.log.lastIndex;
    this.#isSuspect = session.isSuspect;
    this.#line = this.#open("");
  }

  /** As `Transport.deliver`. */
  async *run(): AsyncGenerator<AnswerEvent, void, void> {
    try {
      while (!this.#reading.ended) yield* this.#take(await this.#nextLetter());
    } catch (error) {
      throw await this.#reasonOf(error);
    } finally {
      this.#end.abort();
    }
  }

  #open(query: string): Line {
    const line = new AbortController();
    void this.#read(line, query);
    return line;
  }

  async #read(line: Line, query: string): Promise<void> {
    const { responseId = "", log } = this.#inquiry;
    const path = `${pathOf(responseId)}/events?after=${log.lastIndex}&epoch=${log.epoch}${query}`;
    const put = (arrival: Letter["arrival"]) => this.#letters.put({ line, arrival });
    const events = new EventStream((comment) => {
      const after_ms = moveAfterMs(comment);
      if (after_ms !== undefined) put({ type: "reconnect", after_ms });
    });
    try {
      const signal = firstOf(this.#signal, line.signal);
      const { body, headers } = await this.#session.open(path, { signal });
      const isOurs = headers.get("Content-Type")?.startsWith("text/event-stream");
      if (isOurs) put(null);
      const reader = isOurs ? body?.pipeThrough(new TextDecoderStream()).getReader() : undefined;
      for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
        put(null);
        for (const { data } of events.take(part.value)) put(readFrame(data));
      }
      put(new ConnectionError(LOST));
    } catch (error) {
      put(isEvenflowError(error) ? error : new ConnectionError(LOST));
    }
  }

  *#take({ line, arrival }: Letter): Generator<AnswerEvent, void, void> {
    if (line === this.#next) {
      if (arrival instanceof Error) return this.#moveOnLater();
      this.#switchTo(line);
    }
    if (line !== this.#line) return;
    if (arrival instanceof Error) {
      if (!this.#isMovingOn) throw arrival;
      this.#lineLoss = arrival;
      return;
    }
    this.#hear();
    if (!this.#hasHead && this.#inquiry.wasRead) yield { type: "resumed" };
    this.#hasHead = this.#inquiry.wasRead = true;
    if (arrival?.type === "reconnect" && !this.#isMovingOn) this.#moveOnAfter(arrival.after_ms);
    if (arrival === null || arrival.type === "reconnect") return;
    this.#flows = arrival.type === "chat.response.delta";
    yield* this.#reading.receive(arrival);
  }

  #moveOnAfter(ms: number): void {
    this.#isMovingOn = true;
    delay(ms, this.#signal).then(
      () => {
        this.#next = this.#open("&moving=1");
      },
      () => {},
    );
  }

  /** Notes that the next stream failed: the present one is read for as long as it lasts. */
  #moveOnLater(): void {
    this.#next = undefined;
    if (this.#lineLoss) throw this.#lineLoss;
    this.#failures += 1;
    this.#moveOnAfter(backoffMs(this.#failures));
  }

  #switchTo(line: Line): void {
    this.#line.abort();
    this.#line = line;
    this.#next = this.#lineLoss = undefined;
    this.#isMovingOn = false;
    this.#failures = 0;
  }

  /**
   * What comes next. After a silence a poll checks whether there is more. If so, a proxy holds the stream back. But if
   * the streams have brought something, or this one was opened in an outage, it is lost, as when the browser had frozen
   * the tab.
   */
  async #nextLetter(): Promise<Letter> {
    for (let polls = 0; polls < LIMITS.quietPolls; polls += 1) {
      const mayBeDead = this.#isSuspect && !this.#hasHead;
      const quietMs = this.#flows || mayBeDead ? LIMITS.flowQuietMs : LIMITS.quietMs * 2 ** polls;
      const letter = await this.#letters.take(quietMs);
      if (letter !== undefined) return letter;
      this.#flows = false;
      const found = await this.#poll();
      if (found.metadata.next_index <= this.#inquiry.log.lastIndex + 1 && !isFinal(found)) continue;
      if (mayBeDead) break;
      const late = await this.#letters.take(this.#hasHead ? LIMITS.heldBackMs : LIMITS.headMs);
      if (late !== undefined) return late;
      if (this.#hasGrown) break;
      throw new HeldBackError("held back");
    }
    throw new ConnectionError(LOST);
  }

  async #poll(): Promise<Poll> {
    try {
      const timeLimit = this.#session.patienceMs;
      return await hedged(this.#signal, async (signal) =>
        readPoll(await openPoll(this.#session, this.#inquiry, 0, timeLimit, signal), signal),
      );
    } catch (error) {
      this.#isUnreached = true;
      this.#session.suspect();
      throw error;
    }
  }

  get #hasGrown(): boolean {
    return this.#inquiry.log.lastIndex > this.#begun;
  }

  /** The same error, or a {@link BlockedError} if streams bring nothing although HTTP reaches the server. */
  async #reasonOf(error: unknown): Promise<unknown> {
    if (!(error instanceof ConnectionError) || error instanceof BlockedError) return error;
    if (this.#isUnreached || this.#hasGrown || this.#signal.aborted) return error;
    return (await this.#session.isReached()) ? new BlockedError(error.message) : error;
  }
}

/** A stream can't send anything back: missing entries are requested with the next one. */
function askAgain(): never {
  throw new ConnectionError("a part is missing");
}
