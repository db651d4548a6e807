import type { ConnectionError, RefusedError } from "./errors.ts";
import * as LIMITS from "./limits.ts";

/** Any error: where the server says how long to wait, one of these two does. */
type Waitable = Partial<Pick<ConnectionError, "retryAfterMs"> & Pick<RefusedError, "body">>;

/**
 * Full-jitter backoff: anything from nothing to an exponentially growing bound. The first bound is half a second: wide
 * enough that the clients of a node that died do not come back all at once. Then it stays at a second until another node
 * has that one's answers, so that its readers are there by then. `failures` counts from 1. Milliseconds.
 */
export function backoffMs(failures: number): number {
  const doublings = Math.max(Math.min(failures, 2), failures - LIMITS.backoffHeldFailures);
  return Math.random() * Math.min(LIMITS.backoffCapMs, LIMITS.backoffBaseMs * 2 ** doublings);
}

/** How long to wait after `error`: at least as long as the server has said, and then some, as in {@link backoffMs}. */
export function retryDelayMs(error: unknown, failures: number): number {
  return saidMs(error) + backoffMs(failures);
}

/** Whether `error` is over so soon that it can be waited for in silence. A spent budget is not, however late it is. */
export function passesSoon(error: unknown): boolean {
  return saidMs(error) <= LIMITS.longestWaitMs && (error as Waitable).body?.code !== "budget_exhausted";
}

function saidMs(error: unknown): number {
  const { retryAfterMs, body } = error as Waitable;
  return retryAfterMs ?? body?.retry_after_ms ?? 0;
}
