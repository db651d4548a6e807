/** How many gaps make the running pace: enough to be steady, few enough to follow a change. */
const PACE_WINDOW = 15;

/** What can be measured of one answer's delivery, from where the reader sits. Times are milliseconds. */
export class DeliveryStats {
  readonly #askedAt: number;
  #firstAt: number | undefined;
  #lastAt = 0;
  #lastIndex = -1;
  #joined = 0;
  readonly #gaps: number[] = [];
  readonly #deviations: number[] = [];

  constructor(askedAt: number) {
    this.#askedAt = askedAt;
  }

  /** Counts a piece of text that came at the time `at`, with the deltas `from` to `index`. */
  record(at: number, from: number, index: number): void {
    if (this.#firstAt === undefined) this.#firstAt = at;
    else this.#recordGap(at - this.#lastAt);
    this.#lastAt = at;
    this.#lastIndex = index;
    this.#joined += index - from;
  }

  /** Time to the first token. */
  get firstTokenMs(): number | undefined {
    return this.#firstAt === undefined ? undefined : this.#firstAt - this.#askedAt;
  }

  /** The last index; -1 for none. */
  get lastIndex(): number {
    return this.#lastIndex;
  }

  /** How many deltas came along with another one instead of on their own. */
  get joined(): number {
    return this.#joined;
  }

  /** The gaps between pieces, oldest first. */
  get gaps(): readonly number[] {
    return this.#gaps;
  }

  /** The median of the last gaps: what the reader has got used to. */
  get paceMs(): number | undefined {
    return quantile(this.#gaps.slice(-PACE_WINDOW), 0.5);
  }

  /** The 95th percentile of how far a gap was from the pace before it. */
  get jitterMs(): number | undefined {
    return quantile(this.#deviations, 0.95);
  }

  #recordGap(gap: number): void {
    const pace = this.paceMs;
    if (pace !== undefined) this.#deviations.push(Math.abs(gap - pace));
    this.#gaps.push(gap);
  }
}

/** The value that a share `q` of the values does not exceed (nearest rank); undefined for none. */
function quantile(values: readonly number[], q: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}
