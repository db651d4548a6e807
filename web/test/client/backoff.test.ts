import { describe, expect, it } from "vitest";
import { backoffMs } from "../../src/client/backoff.ts";

describe("backoffMs", () => {
  it("grows with every failure, up to a cap", () => {
    const longest = [1, 2, 3, 6, 50].map((failures) => backoffMs(failures, () => 1));
    expect(longest).toEqual([250, 500, 1_000, 8_000, 8_000]);
  });

  it("may be as short as nothing, so that clients do not come back together", () => {
    expect(backoffMs(5, () => 0)).toBe(0);
  });
});
