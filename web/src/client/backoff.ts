import { LIMITS } from "./limits.ts";

/**
 * Full-jitter backoff: anything from nothing to an exponentially growing bound, so that the clients of a node that
 * went away do not come back all at once. `failures` counts from 1; `random` gives [0, 1). Milliseconds.
 */
export function backoffMs(failures: number, random: () => number): number {
  return random() * Math.min(LIMITS.backoffCapMs, LIMITS.backoffBaseMs * 2 ** (failures - 1));
}
