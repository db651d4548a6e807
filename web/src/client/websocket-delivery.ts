import { AnswerReading } from "./answer-reading.ts";
import type { AnswerEvent } from "./api.ts";
import { retryDelayMs } from "./backoff.ts";
import { delay } from "./delay.ts";
import { ConnectionError } from "./errors.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import type { Arrival } from "./read-frame.ts";
import type { Wish } from "./transport.ts";
import type { WebSocketConnection } from "./websocket-connection.ts";

/** A connection that the answer is read from, or is going to be. */
interface Line {
  readonly connection: WebSocketConnection;
  readonly reading: AnswerReading;
}

interface Letter {
  readonly line: Line;
  readonly arrival: Arrival;
}

/**
 * One answer over WebSockets. When the server that it comes from is leaving, the answer is asked for over the next
 * connection while the present one still delivers it, and read from there as soon as it begins: nobody notices.
 */
export class WebSocketDelivery {
  readonly #inquiry: Inquiry;
  readonly #connect: () => Promise<WebSocketConnection>;
  readonly #mailbox = new Mailbox<Letter>();
  readonly #end = new AbortController();
  #line: Line;
  #lineLoss: Error | undefined;
  /** Where the answer was asked for as well, and has not begun yet. */
  #next: Line | undefined;
  #isMovingOn = false;
  /** Whether that is because the line may be dead. Then it is read until the next one brings something new. */
  #isDoubted = false;
  /** How the answer has begun there. */
  #beginning: Arrival | undefined;
  /** Whether it was doubted, and proved alive. */
  #isSlow = false;
  /** The number of frames received, to see whether any arrive. */
  #arrivals = 0;
  /** Whether text comes, frame by frame. */
  #flows = false;
  /** How long a sign of life may take, in milliseconds. */
  readonly #pongMs: number;
  /** Whether it ended because nothing came any more. */
  isSilent = false;
  #failures = 0;
  /** Numbers the attempts to move on: only the last one is used. */
  #turn = 0;

  /** Reads from `connection`; `connect` is called for the next one. */
  constructor(
    inquiry: Inquiry,
    connection: WebSocketConnection,
    connect: () => Promise<WebSocketConnection>,
    pongMs: number,
  ) {
    this.#inquiry = inquiry;
    this.#connect = connect;
    this.#pongMs = pongMs;
    this.#line = this.#lineOver(connection);
  }

  /** As {@link Transport.deliver}. */
  async *run(): AsyncGenerator<AnswerEvent, void, void> {
    const acknowledging = setInterval(() => this.#line.reading.acknowledge(), LIMITS.ackIntervalMs);
    this.#inquiry.abandoned.addEventListener("abort", () => this.#abandon(), { signal: this.#end.signal });
    try {
      this.#dial(this.#line);
      while (!this.#line.reading.ended) yield* this.#take(await this.#nextLetter());
    } finally {
      clearInterval(acknowledging);
      this.#end.abort();
      this.#hangUp();
      this.#next?.connection.unlisten();
    }
  }

  tell(wish: Wish): void {
    this.#line.reading.tell(wish);
  }

  /**
   * Checks the connection after a wake-up, since the network may have changed. If it doesn't answer at once, another
   * one is opened beside it, and the first to bring the answer is read.
   */
  doubt(patienceMs: number = LIMITS.doubtMs): void {
    const { connection } = this.#line;
    if (this.#isDoubted && !this.#next) this.#moveOnNow();
    if (this.#isMovingOn || !connection.isOpen) return;
    const before = this.#arrivals;
    connection.send({ type: "ping" });
    delay(patienceMs, this.#end.signal).then(
      () => {
        if (this.#arrivals > before || this.#isMovingOn) return;
        connection.doubt();
        this.#isDoubted = true;
        this.#beginToMoveOn();
      },
      () => {},
    );
  }

  #lineOver(connection: WebSocketConnection): Line {
    return { connection, reading: new AnswerReading(this.#inquiry, connection) };
  }

  #dial(line: Line): void {
    line.reading.request();
    line.connection.listen({
      onArrival: (arrival) => {
        this.#arrivals += 1;
        this.#mailbox.put({ line, arrival });
      },
      onLost: (error) => this.#onLost(line, error),
      onLeave: () => this.#onLeave(line),
    });
  }

  #hangUp(): void {
    this.#line.reading.acknowledge();
    this.#line.connection.unlisten();
  }

  #onLost(line: Line, error: Error): void {
    if (line === this.#line) this.#lineLoss = error;
    if (line === this.#next) this.#moveOnLater(error);
    else if (!this.#next) this.#mailbox.fail(error);
  }

  #onLeave(line: Line): void {
    if (line === this.#line) this.#beginToMoveOn();
  }

  #beginToMoveOn(): void {
    if (this.#isMovingOn) return;
    this.#isMovingOn = true;
    this.#moveOnNow();
  }

  #abandon(): void {
    const reason = "the client was closed";
    this.#mailbox.fail(new ConnectionError(reason));
    this.#line.connection.close(reason);
  }

  *#take({ line, arrival }: Letter): Generator<AnswerEvent, void, void> {
    if (line === this.#next) {
      const refusal = line.reading.refusal(arrival);
      if (refusal) return this.#moveOnLater(refusal);
      if (this.#mayGoOverTo(line, arrival)) yield* this.#switchTo(line);
    } else if (line === this.#line && this.#isDoubted && line.connection.isOpen) this.#trust();
    if (line !== this.#line) return;
    this.#flows = arrival.type === "chat.response.delta";
    yield* line.reading.receive(arrival);
  }

  /**
   * Whether to read `line` from now on: once the answer begins there, or if the present line may live, once text comes.
   */
  #mayGoOverTo(line: Line, arrival: Arrival): boolean {
    const hasBegun = this.#beginning !== undefined;
    if (arrival.type === "pong") return false;
    if (line.reading.isBegunBy(arrival) && this.#isDoubted && arrival.type === "chat.response.start" && !hasBegun) {
      this.#beginning = arrival;
      return false;
    }
    return hasBegun || line.reading.isBegunBy(arrival);
  }

  #moveOnNow(): void {
    this.#turn += 1;
    void this.#moveOn();
  }

  /** Opens the next connection, and asks for the answer there. */
  async #moveOn(): Promise<void> {
    const turn = this.#turn;
    try {
      const connection = await this.#connect();
      if (this.#end.signal.aborted || turn !== this.#turn) return;
      this.#next = this.#lineOver(connection);
      this.#dial(this.#next);
    } catch (error) {
      if (turn === this.#turn) this.#moveOnLater(error);
    }
  }

  /** Notes that the doubted line is alive, and may be slow. */
  #trust(): void {
    this.#turn += 1;
    const next = this.#next;
    this.#next = this.#beginning = undefined;
    this.#isMovingOn = this.#isDoubted = false;
    next?.connection.unlisten();
    next?.connection.close("it is not needed");
    this.#isSlow = true;
  }

  /** It could not be had there, so the present connection is read from as long as it lasts. */
  #moveOnLater(error: unknown): void {
    this.#next?.connection.unlisten();
    this.#next = this.#beginning = undefined;
    if (this.#lineLoss) this.#mailbox.fail(this.#lineLoss);
    this.#failures += 1;
    const turn = this.#turn;
    const wait = delay(retryDelayMs(error, this.#failures), this.#end.signal);
    wait.then(
      () => (turn === this.#turn ? this.#moveOn() : undefined),
      () => {},
    );
  }

  *#switchTo(line: Line): Generator<AnswerEvent, void, void> {
    this.#hangUp();
    this.#line = line;
    this.#next = this.#lineLoss = undefined;
    this.#isMovingOn = this.#isDoubted = false;
    this.#failures = 0;
    const beginning = this.#beginning;
    this.#beginning = undefined;
    if (this.#inquiry.stopped.aborted) this.tell("cancel");
    if (beginning) yield* line.reading.receive(beginning);
  }

  /**
   * The next frame. A connection may die without a word (a phone that changes networks), so after a silence the server is
   * asked for a sign of life, however long its model thinks; if nothing comes, the connection is given up. In the
   * middle of a text this happens sooner, and another connection is opened beside it.
   */
  async #nextLetter(): Promise<Letter> {
    const letter = await this.#nextInTime();
    if (letter) return letter;
    const { connection } = this.#next ?? this.#line;
    connection.send({ type: "ping" });
    const askedAt = Date.now();
    let reply = await this.#mailbox.take(this.#pongMs);
    // Where that timer is late, the tab has slept: what came meanwhile is handed over after it.
    const hasSlept = Date.now() - askedAt > this.#pongMs + LIMITS.sleptMs;
    if (!reply && hasSlept) reply = await this.#mailbox.take(this.#pongMs);
    if (reply) return reply;
    this.isSilent = true;
    const reason = "the connection is lost";
    connection.close(reason);
    throw new ConnectionError(reason);
  }

  /** The next letter, within the silence after which a ping is due. */
  async #nextInTime(): Promise<Letter | undefined> {
    const isQuick = this.#flows && !this.#isMovingOn && !this.#isSlow && this.#pongMs === LIMITS.pongMs;
    if (!isQuick) return await this.#mailbox.take(LIMITS.silenceMs);
    const letter = await this.#mailbox.take(LIMITS.flowSilenceMs);
    if (letter) return letter;
    this.doubt(LIMITS.flowPongMs);
    return await this.#mailbox.take(LIMITS.silenceMs - LIMITS.flowSilenceMs);
  }
}
