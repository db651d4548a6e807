import type { ConnectionError, RefusedError } from "./errors.ts";
import * as LIMITS from "./limits.ts";
import { isHidden, isOffline } from "./wake-up.ts";

/** Any error: where the server says how long to wait, one of these two does. */
type Waitable = Partial<Pick<ConnectionError, "retryAfterMs"> & Pick<RefusedError, "body">>;

/**
 * Full-jitter backoff: anything from nothing to an exponentially growing bound. The first bound is half a second: wide
 * enough that the clients of a node that died do not come back all at once. Then it stays at a second until another node
 * has that one's answers, so that its readers are there by then. `failures` counts from 1. Milliseconds.
 */
export function backoffMs(failures: number, capMs: number = LIMITS.backoffCapMs): number {
  const doublings = Math.max(Math.min(failures, 2), failures - LIMITS.backoffHeldFailures);
  return Math.random() * Math.min(capMs, LIMITS.backoffBaseMs * 2 ** doublings);
}

/**
 * The milliseconds from the last try to the next, for a server that has been out of reach for `lostMs`. In a visible
 * tab an answer goes on within two seconds of the network's return. Tries are rarer, but never end, in a hidden tab,
 * after a long outage, and while the browser reports no network: there no reader waits.
 */
export function probeDelayMs(failures: number, lostMs: number): number {
  const isSlow = isOffline() || lostMs > LIMITS.fastProbesMs || (isHidden() && failures > LIMITS.hiddenFastProbes);
  return isSlow ? LIMITS.slowProbeMs * (1 + Math.random()) : backoffMs(failures, LIMITS.probeCapMs);
}

/** How long to wait after `error`: at least as long as the server has said, and then some, as in {@link backoffMs}. */
export function retryDelayMs(error: unknown, failures: number): number {
  return saidMs(error) + backoffMs(failures);
}

/** Whether `error` is over so soon that it can be waited for in silence. A spent budget is not, however late it is. */
export function passesSoon(error: unknown): boolean {
  return (toldMs(error) ?? 0) <= LIMITS.longestWaitMs && (error as Waitable).body?.code !== "budget_exhausted";
}

/** The milliseconds to wait after `error` by the server's word, cut to the longest wait. */
export function saidMs(error: unknown): number {
  return Math.min(toldMs(error) ?? 0, LIMITS.longestWaitMs);
}

function toldMs(error: unknown): number | undefined {
  const { retryAfterMs, body } = error as Waitable;
  return retryAfterMs ?? body?.retry_after_ms;
}
