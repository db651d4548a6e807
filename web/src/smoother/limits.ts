/** Every bound of the playout. Times are milliseconds. */
export const LIMITS = {
  /** The longest that text may wait for its turn. The screen is never further behind the network than this, and a frame. */
  behindMs: 300,
  /** How long the text that is left may take once the answer has ended. */
  drainMs: 200,
  /** The delay that is kept in hand, at least and at most: enough to bridge the gaps that were seen, and no more. */
  leastDelayMs: 80,
  mostDelayMs: 250,
  /** How long it takes to forget half of the longest gap. */
  halfLifeMs: 10_000,
} as const;
