import { ArrivalMeter } from "./arrival-meter.ts";
import { characterEnd, openCharacter } from "./character-end.ts";
import { LIMITS } from "./limits.ts";

interface Piece {
  readonly length: number;
  readonly at: number;
}

/**
 * Gives text out evenly that has come in unevenly: a jitter buffer for reading. The speed is the text in hand over the
 * delay to keep, so that it settles at the rate of arrival, quickens after a burst and slows in a stall; and it is never
 * less than what brings every piece out in time. All times are milliseconds of one clock, which the caller reads.
 */
export class Playout {
  readonly #meter = new ArrivalMeter();
  readonly #pieces: Piece[] = [];
  #waiting = "";
  /** Characters that are due but not given yet: less than one, or a debt where a character was longer. */
  #credit = 0;
  #now = 0;
  #endsAt = Number.POSITIVE_INFINITY;

  /** Text arrives at the time `now`. */
  push(text: string, now: number): void {
    if (text === "") return;
    this.#meter.record(now);
    if (this.#waiting === "") {
      // Nothing is on the way to the screen, so that the first character is late already.
      this.#credit = 1;
      this.#now = now;
    }
    this.#pieces.push({ length: text.length, at: now });
    this.#waiting += text;
  }

  /** No more will arrive: what is left is given out within {@link LIMITS.drainMs}. */
  end(now: number): void {
    this.#endsAt = now + LIMITS.drainMs;
  }

  /** Whether there is text that was not given out yet. */
  get isWaiting(): boolean {
    return this.#waiting !== "";
  }

  /** The text that is due at the time `now`. Call it once a frame; a frame that is left out is made up for. */
  take(now: number): string {
    if (this.#waiting === "") return "";
    const elapsed = Math.max(0, now - this.#now);
    const even = this.#waiting.length * (1 - Math.exp(-elapsed / this.#meter.delayMs));
    const { overdue, owed } = this.#owed(now, elapsed);
    this.#credit += Math.max(even, owed);
    this.#now += elapsed;
    const most = this.#most(overdue);
    this.#credit = Math.min(this.#credit, most);
    const due = Math.max(overdue, Math.floor(this.#credit));
    return due > 0 ? this.#give(Math.min(characterEnd(this.#waiting, due), most)) : "";
  }

  /** All that waits, at once. */
  flush(): string {
    return this.#give(this.#waiting.length);
  }

  /** The same, but for a last character that may not be whole yet. */
  flushWhole(now: number): string {
    return this.#give(this.#most(this.#owed(now, 0).overdue));
  }

  /** How much may be shown: without a last character that may be incomplete, until it has waited long enough. */
  #most(overdue: number): number {
    const isEnded = this.#endsAt !== Number.POSITIVE_INFINITY;
    const whole = isEnded ? this.#waiting.length : openCharacter(this.#waiting);
    return overdue > whole ? this.#waiting.length : whole;
  }

  /** How much is past its deadline, and how much is to be given now for the rest to meet theirs at an even speed. */
  #owed(now: number, elapsed: number): { overdue: number; owed: number } {
    let [length, overdue, owed] = [0, 0, 0];
    for (const piece of this.#pieces) {
      length += piece.length;
      const deadline = Math.min(piece.at + LIMITS.behindMs, this.#endsAt);
      if (now >= deadline) overdue = length;
      else owed = Math.max(owed, (length * elapsed) / (deadline - this.#now));
    }
    return { overdue, owed };
  }

  #give(length: number): string {
    const text = this.#waiting.slice(0, length);
    this.#waiting = this.#waiting.slice(length);
    this.#credit -= text.length;
    let given = text.length;
    while (given > 0) {
      const piece = this.#pieces.shift();
      if (piece === undefined) break;
      if (piece.length > given) this.#pieces.unshift({ length: piece.length - given, at: piece.at });
      given -= piece.length;
    }
    return text;
  }
}
