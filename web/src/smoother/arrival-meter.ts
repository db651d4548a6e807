import { LIMITS } from "./limits.ts";

/**
 * Measures how unevenly text arrives, as an audio jitter buffer does: the delay to keep is the longest gap of late, which
 * counts for less the longer ago it was. Until there is anything to measure it expects the worst.
 */
export class ArrivalMeter {
  #longestGap: number = LIMITS.mostDelayMs;
  #lastAt: number | undefined;

  /** Counts an arrival at the time `at`, in milliseconds. */
  record(at: number): void {
    if (this.#lastAt !== undefined) {
      const gap = at - this.#lastAt;
      this.#longestGap = Math.max(gap, this.#longestGap * 2 ** (-gap / LIMITS.halfLifeMs));
    }
    this.#lastAt = at;
  }

  /** The delay that bridges gaps like those that were seen, in milliseconds. */
  get delayMs(): number {
    return Math.min(LIMITS.mostDelayMs, Math.max(LIMITS.leastDelayMs, this.#longestGap));
  }
}
