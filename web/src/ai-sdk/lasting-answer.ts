import { probeDelayMs } from "../client/backoff.ts";
import { EventStream, moveAfterMs, type ServerEvent } from "../client/event-stream.ts";
import * as LIMITS from "../client/limits.ts";
import { Mailbox } from "../client/mailbox.ts";
import type { WakeUps } from "../client/wake-up.ts";
import { textOf } from "./body-text.ts";

interface Chunk {
  type: string;
  code?: string;
}

/** A connection, which is read until it is aborted. */
type Line = AbortController;

/** An event, or the text of a comment. */
type Item = ServerEvent | { readonly comment: string };

/** What a connection has brought; `null` stands for its loss, and an error for the server's refusal. */
interface Letter {
  readonly line: Line;
  readonly arrival: Item | Error | null;
}

/** The next connection is slow: the present one is read on. */
class LateError extends Error {}

/**
 * Opens the next connection, after the chunk `lastId`. Rejects only with a refusal of the server, or when aborted.
 * `isMoving`: the server of the current one is shutting down.
 */
export type Again = (
  lastId: string,
  id: string | undefined,
  signal: AbortSignal,
  isMoving?: boolean,
) => Promise<Response>;

/**
 * An answer that outlives its connections: when one is lost, the next one continues after the last chunk with an id.
 * Chunks without an id are held until one comes, so none is delivered twice. The answer is never given up.
 */
export class LastingAnswer {
  /** The answer's id, once the server has said it. */
  id: string | undefined;
  readonly #again: Again;
  readonly #wakeUps: WakeUps;
  readonly #onEnd: () => void;
  readonly #letters = new Mailbox<Letter>();
  #line: Line = new AbortController();
  #isLost = false;
  /** The next connection, which is being opened; and whether that is only because this one is silent. */
  #next: Line | undefined;
  #isSuspected = false;
  /** Whether it was suspected, and proved alive. */
  #isSlow = false;
  /** What this one has brought since then: the next one brings it, too. */
  #kept: Item[] = [];
  #held: Chunk[] = [];
  #lastId = "";
  #heardAt = Date.now();
  /** Connections in a row that have brought nothing. */
  #failures = 0;
  #isOver = false;

  constructor(again: Again, wakeUps: WakeUps, onEnd: () => void) {
    this.#again = again;
    this.#wakeUps = wakeUps;
    this.#onEnd = onEnd;
  }

  async *chunks(first: Response): AsyncGenerator<Chunk, void, void> {
    this.id = first.headers.get("x-request-id") ?? undefined;
    void this.#read(this.#line, first);
    const endWakeUps = this.#wakeUps.on(() => {
      if (Date.now() - this.#heardAt > LIMITS.doubtMs) this.#suspect();
    });
    try {
      while (!this.#isOver) yield* this.#take(await this.#nextLetter());
    } finally {
      endWakeUps();
      this.#line.abort();
      this.#next?.abort();
    }
  }

  /** Nobody reads any more. */
  leave(): void {
    this.#isOver = true;
    this.#letters.put({ line: this.#line, arrival: { comment: "" } });
  }

  /** The next letter. A connection that is silent may be dead: then the next one is opened beside it. */
  async #nextLetter(): Promise<Letter> {
    for (;;) {
      const letter = await this.#letters.take(this.#silenceMs);

      if (letter !== undefined) return letter;
      this.#suspect();
    }
  }

  get #silenceMs(): number {
    if (this.#next || this.#lastId === "") return LIMITS.longSilenceMs;
    return this.#isSlow ? LIMITS.silenceMs : LIMITS.flowSilenceMs;
  }

  #suspect(): void {
    if (this.#isLost) return;
    this.#leaveNext();
    this.#isSuspected = true;
    this.#moveOn(0);
  }

  #moveOn(pauseMs: number, isMoving = false): Line {
    const next = new AbortController();
    this.#next = next;
    void this.#open(next, pauseMs, isMoving);
    return next;
  }

  async #open(next: Line, pauseMs: number, isMoving: boolean): Promise<void> {
    try {
      await this.#wakeUps.pause(pauseMs, next.signal);
      await this.#read(next, await this.#again(this.#lastId, this.id, next.signal, isMoving));
    } catch (error) {
      if (!next.signal.aborted) this.#letters.put({ line: next, arrival: error as Error });
    }
  }

  async #read(line: Line, { body }: Response): Promise<void> {
    const put = (arrival: Letter["arrival"]) => this.#letters.put({ line, arrival });
    const events = new EventStream((comment) => put({ comment }));
    try {
      if (body !== null)
        for await (const text of textOf(body, line.signal)) for (const event of events.take(text)) put(event);
    } catch {
      // It is lost.
    }
    put(null);
  }

  *#take({ line, arrival }: Letter): Generator<Chunk, void, void> {
    if (line === this.#next) yield* this.#takeOfNext(line, arrival);
    else if (line === this.#line) yield* this.#takeOfLine(arrival);
  }

  *#takeOfNext(line: Line, arrival: Letter["arrival"]): Generator<Chunk, void, void> {
    if (arrival instanceof LateError && this.#isLost) return;
    if (arrival === null || arrival instanceof Error) {
      this.#leaveNext();
      for (const event of this.#kept.splice(0)) yield* this.#give(event);
      if (arrival && this.#isLost) throw arrival;
      if (this.#isLost) this.#moveOnLater();
      else if (arrival instanceof LateError) this.#moveAfter(LIMITS.probeCapMs);
      return;
    }
    this.#line.abort();
    this.#line = line;
    this.#next = undefined;
    this.#isLost = this.#isSuspected = false;
    this.#kept = [];
    this.#held = [];
    yield* this.#takeOfLine(arrival);
  }

  *#takeOfLine(arrival: Letter["arrival"]): Generator<Chunk, void, void> {
    if (arrival instanceof Error) return;
    if (arrival === null) {
      this.#isLost = true;
      if (!this.#next) this.#moveOnLater();
      return;
    }
    this.#heardAt = Date.now();
    // It lives.
    if (this.#isSuspected) {
      this.#leaveNext();
      this.#isSlow = true;
    }
    if (this.#next) this.#kept.push(arrival);
    else yield* this.#give(arrival);
  }

  *#give(event: Item): Generator<Chunk, void, void> {
    if (this.#isOver) return;
    if ("comment" in event) return this.#listenTo(event.comment);
    const { id, data } = event;
    const chunk: Chunk | undefined = data === "[DONE]" ? undefined : JSON.parse(data);
    if (chunk?.code === "too_slow") return yield* this.#takeOfLine(null);
    if (chunk !== undefined) this.#held.push(chunk);
    if (chunk !== undefined && id === "") return;
    yield* this.#held.splice(0);
    if (chunk !== undefined) {
      this.#lastId = id;
      this.#failures = 0;
      return;
    }
    this.#isOver = true;
    this.#onEnd();
  }

  /** A leaving server says when to move on. What it still sends is kept until the next one brings something. */
  #listenTo(comment: string): void {
    const ms = moveAfterMs(comment);
    if (ms !== undefined) this.#moveAfter(ms);
  }

  #moveAfter(ms: number): void {
    const line = this.#line;
    setTimeout(() => {
      if (this.#isOver || line !== this.#line || this.#next) return;
      const next = this.#moveOn(0, true);
      setTimeout(() => this.#letters.put({ line: next, arrival: new LateError() }), LIMITS.reopenPatienceMs);
    }, ms);
  }

  #moveOnLater(): void {
    this.#failures += 1;
    this.#leaveNext();
    this.#moveOn(probeDelayMs(this.#failures, 0));
  }

  #leaveNext(): void {
    this.#next?.abort();
    this.#next = undefined;
    this.#isSuspected = false;
  }
}
