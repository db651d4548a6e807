import { describe, expect, it, vi } from "vitest";
import { backoffMs, probeDelayMs, retryDelayMs } from "../../src/client/backoff.ts";
import { ConnectionError, ProtocolError, RefusedError } from "../../src/client/errors.ts";

/** Lets chance be `random` for what follows. */
function chance(random: number): void {
  vi.spyOn(Math, "random").mockReturnValue(random);
}

describe("backoffMs", () => {
  it("stays at a second while a lost node is missed, and then grows with every failure up to a cap", () => {
    chance(1);
    const longest = [1, 2, 3, 4, 5, 6, 7, 8, 50].map((failures) => backoffMs(failures));
    expect(longest).toEqual([500, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 8_000]);
  });

  it("spreads the clients of a node that died over half a second, whoever they are", () => {
    const returns = Array.from({ length: 100 }, (_, client) => {
      chance(client / 100);
      return backoffMs(1);
    });
    expect(returns).toEqual(Array.from({ length: 100 }, (_, client) => client * 5));
  });

  it("may be as short as nothing, so that clients do not come back together", () => {
    chance(0);
    expect(backoffMs(5)).toBe(0);
  });
});

describe("retryDelayMs", () => {
  const storm = { type: "overloaded_error", code: "reconnect_storm", message: "wait", retry_after_ms: 3_000 };

  it.each([
    [new RefusedError(storm), [3_000, 3_250, 3_500]],
    [new ConnectionError("502", 1_000), [1_000, 1_250, 1_500]],
    [new ConnectionError("lost"), [0, 250, 500]],
    [new ProtocolError("says nothing of a wait"), [0, 250, 500]],
  ])("is at least what the server said, and jittered above it: %s", (error, expected) => {
    const delays = [0, 0.5, 1].map((random) => {
      chance(random);
      return retryDelayMs(error, 1);
    });
    expect(delays).toEqual(expected);
  });
});

describe("probeDelayMs", () => {
  it("is two seconds at most while somebody waits for an answer", () => {
    chance(1);
    expect([1, 2, 3, 4, 5, 6, 7, 50].map((failures) => probeDelayMs(failures, 0))).toEqual([
      500, 1_000, 1_000, 1_000, 1_000, 2_000, 2_000, 2_000,
    ]);
  });

  it("is five to ten seconds after a long time", () => {
    const pauses = [0, 1].map((random) => {
      chance(random);
      return probeDelayMs(3, 600_001);
    });
    expect(pauses).toEqual([5_000, 10_000]);
  });
});
