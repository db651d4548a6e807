import { ConnectionError, RefusedError } from "./errors.ts";
import * as LIMITS from "./limits.ts";

/**
 * Full-jitter backoff: anything from nothing to an exponentially growing bound. The first bound is half a second: wide
 * enough that the clients of a node that died do not come back all at once. `failures` counts from 1.
 * Milliseconds.
 */
export function backoffMs(failures: number): number {
  return Math.random() * Math.min(LIMITS.backoffCapMs, LIMITS.backoffBaseMs * 2 ** failures);
}

/** How long to wait after `error`: at least as long as the server has said, and then some, as in {@link backoffMs}. */
export function retryDelayMs(error: unknown, failures: number): number {
  return (serversWaitMs(error) ?? 0) + backoffMs(failures);
}

function serversWaitMs(error: unknown): number | undefined {
  if (error instanceof ConnectionError) return error.retryAfterMs;
  if (error instanceof RefusedError) return error.body.retry_after_ms;
  return undefined;
}
