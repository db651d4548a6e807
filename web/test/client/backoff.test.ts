import { describe, expect, it } from "vitest";
import { backoffMs, retryDelayMs } from "../../src/client/backoff.ts";
import { ConnectionError, ProtocolError, RefusedError } from "../../src/client/errors.ts";

describe("backoffMs", () => {
  it("grows with every failure, up to a cap", () => {
    const longest = [1, 2, 3, 6, 50].map((failures) => backoffMs(failures, () => 1));
    expect(longest).toEqual([500, 1_000, 2_000, 8_000, 8_000]);
  });

  it("spreads the clients of a node that died over half a second, whoever they are", () => {
    const returns = Array.from({ length: 100 }, (_, client) => backoffMs(1, () => client / 100));
    expect(returns).toEqual(Array.from({ length: 100 }, (_, client) => client * 5));
  });

  it("may be as short as nothing, so that clients do not come back together", () => {
    expect(backoffMs(5, () => 0)).toBe(0);
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
    expect([0, 0.5, 1].map((random) => retryDelayMs(error, 1, () => random))).toEqual(expected);
  });
});
