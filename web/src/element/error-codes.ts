import type { ErrorName, Strings } from "./strings.ts";

/** An error in the reader's words. */
export interface Explanation {
  readonly what: string;
  /** What the reader can do about it. */
  readonly remedy: string;
  /** Whether asking the same again may help. */
  readonly askAgain: boolean;
  /** Whether the model can continue where the answer stopped. */
  readonly goOn?: boolean;
  /** Whether the question was rejected, and can be changed. */
  readonly canEdit?: boolean;
}

/** The name of an error in the strings, and whether asking the same again may help. */
export type KnownError = readonly [name: ErrorName, askAgain: boolean];

/** Errors that the reader can't resolve. */
export const ORIGIN_NOT_ALLOWED: KnownError = ["originNotAllowed", false];

/** Error codes of the protocol that have their own text. */
export const BY_CODE: ReadonlyMap<string, KnownError> = new Map<string, KnownError>([
  ["message_too_large", ["messageTooLarge", false]],
  ["causal_violation", ["conversationMoved", true]],
  ["model_refused", ["modelRefused", false]],
  ["model_not_set_up", ["modelNotSetUp", false]],
  ["insufficient_quota", ["quotaUsedUp", false]],
  ["upstream_throttled", ["modelThrottled", true]],
  ["upstream_failed", ["modelFailed", true]],
  ["queue_timeout", ["queueTimeout", true]],
  ["queue_displaced", ["queueDisplaced", true]],
  ["context_length_exceeded", ["contextTooLong", false]],
  ["content_policy_violation", ["contentPolicy", false]],
  ["origin_not_allowed", ORIGIN_NOT_ALLOWED],
  ["first_token_timeout", ["modelTooSlow", true]],
  ["model_timeout", ["modelTooSlow", true]],
  ["response_not_found", ["gone", true]],
  ["response_expired", ["gone", true]],
  ["response_elsewhere", ["otherServer", true]],
  ["reconnect_storm", ["reconnectStorm", true]],
  ["attempts_exhausted", ["attemptsExhausted", true]],
  ["not_repeated", ["notRepeated", false]],
]);

/** An error in a language. */
export function inWords([name, askAgain]: KnownError, strings: Strings): Explanation {
  const [what, remedy] = strings.errors[name];
  return { what, remedy, askAgain };
}

const DAY_MS = 86_400_000;

/**
 * A budget of a day or a month (UTC) is used up. `waitMs`: until it resets, if known. On the last day of a month both
 * reset together.
 */
export function budgetUsedUp(waitMs: number | undefined, now: Date, strings: Strings): Explanation {
  if (waitMs === undefined) return { what: strings.budgetUsedUp, remedy: strings.budgetBeginsAnew, askAgain: true };
  if (waitMs <= DAY_MS)
    return { what: strings.dayBudgetUsedUp, remedy: strings.budgetBeginsAtMidnight, askAgain: true };
  const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1));
  return { what: strings.monthBudgetUsedUp, remedy: strings.budgetBeginsOn(nextMonth), askAgain: true };
}
