import { describe, expect, it } from "vitest";
import { DeliveryStats } from "../../src/page/delivery-stats.ts";

/** Stats of an answer, asked for at 1,000 ms, whose single deltas came at these times. */
function delivered(...times: number[]): DeliveryStats {
  const stats = new DeliveryStats(1_000);
  for (const [index, at] of times.entries()) stats.record(at, index, index);
  return stats;
}

describe("DeliveryStats", () => {
  it("knows nothing before the first text", () => {
    const stats = delivered();
    expect([stats.firstTokenMs, stats.jitterMs, stats.paceMs, stats.lastIndex]).toEqual([
      undefined,
      undefined,
      undefined,
      -1,
    ]);
  });

  it("measures the time to the first token", () => {
    expect(delivered(1_350, 1_400).firstTokenMs).toBe(350);
  });

  it("counts deltas that came joined, and the last index", () => {
    const stats = delivered(1_100);
    stats.record(1_200, 1, 4);
    stats.record(1_300, 5, 5);
    expect([stats.joined, stats.lastIndex]).toEqual([3, 5]);
  });

  it("sees no jitter in an even delivery, whatever its pace", () => {
    expect(delivered(1_100, 1_150, 1_200, 1_250).jitterMs).toBe(0);
    expect(delivered(1_100, 3_100, 5_100).jitterMs).toBe(0);
  });

  it("has no jitter to tell while there is no pace to compare with", () => {
    expect(delivered(1_100, 1_150).jitterMs).toBeUndefined();
  });

  it("measures a gap against the pace before it, not against itself", () => {
    expect(delivered(1_000, 1_050, 1_100, 1_150, 1_350).jitterMs).toBe(150);
  });

  it("is not impressed by one stall in a hundred", () => {
    const times = Array.from({ length: 100 }, (_, index) => 1_000 + index * 50 + (index > 60 ? 4_000 : 0));
    expect(delivered(...times).jitterMs).toBe(0);
  });

  it("follows a change of pace", () => {
    const times = Array.from({ length: 40 }, (_, index) => (index < 20 ? index * 50 : 1_000 + (index - 20) * 100));
    const stats = delivered(...times.map((time) => time + 2_000));
    expect(stats.paceMs).toBe(100);
    expect(stats.gaps).toHaveLength(39);
  });
});
