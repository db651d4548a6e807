import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/smoother/limits.ts";
import { Playout } from "../../src/smoother/playout.ts";
import { replay, type TimedText } from "../../src/smoother/replay.ts";
import { demoArrivals, gaps, percentile } from "./demo-arrivals.ts";

const FRAME_MS = 1_000 / 60;

function played(arrivals: readonly TimedText[], frameMs = FRAME_MS): TimedText[] {
  return replay(arrivals, frameMs);
}

const anyArrivals = fc
  .array(fc.record({ gap: fc.oneof(fc.nat(60), fc.nat(2_000)), text: fc.string({ unit: "grapheme", minLength: 1 }) }), {
    minLength: 1,
    maxLength: 60,
  })
  .map((pieces) => {
    let at = 0;
    return pieces.map(({ gap, text }) => {
      at += gap;
      return { at, text };
    });
  });
const anyFrame = fc.integer({ min: 4, max: 60 });

function joined(pieces: readonly TimedText[]): string {
  return pieces.map(({ text }) => text).join("");
}

/** The time at which each character came, or was shown. */
function timeOfEach(pieces: readonly TimedText[]): number[] {
  return pieces.flatMap(({ at, text }) => Array.from({ length: text.length }, () => at));
}

describe("Playout", () => {
  it("shows all of the text, in order, whatever arrives when", () => {
    fc.assert(
      fc.property(anyArrivals, anyFrame, (arrivals, frame) => {
        expect(joined(played(arrivals, frame))).toBe(joined(arrivals));
      }),
    );
  });

  it("shows nothing before it came, and nothing later than the bound and a frame", () => {
    fc.assert(
      fc.property(anyArrivals, anyFrame, (arrivals, frame) => {
        const shown = timeOfEach(played(arrivals, frame));
        for (const [position, came] of timeOfEach(arrivals).entries()) {
          const behind = (shown[position] ?? Number.NaN) - came;
          expect(behind).toBeGreaterThanOrEqual(0);
          expect(behind).toBeLessThanOrEqual(LIMITS.behindMs + frame);
        }
      }),
    );
  });

  it("drains within 250 ms of the end", () => {
    fc.assert(
      fc.property(anyArrivals, fc.integer({ min: 4, max: 49 }), (arrivals, frame) => {
        const ended = arrivals.at(-1)?.at ?? 0;
        expect((played(arrivals, frame).at(-1)?.at ?? 0) - ended).toBeLessThan(250);
      }),
    );
  });

  it("never shows a part of a character, though that arrives in two pieces", () => {
    const characters = ["👨‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "नि", "நி", "กำ", "\u1112\u1161\u11ab", "日", "a", " "];
    const piece = fc.record({ character: fc.constantFrom(...characters), cut: fc.nat(8), gap: fc.nat(60) });
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 30 }), anyFrame, (pieces, frame) => {
        let at = 0;
        const arrivals = pieces.flatMap(({ character, cut, gap }) =>
          [character.slice(0, cut), character.slice(cut)].map((text) => {
            at += gap;
            return { at, text };
          }),
        );
        const whole = new Intl.Segmenter().segment(joined(arrivals));
        const ends = new Set([...whole].map(({ index, segment }) => index + segment.length));
        let end = 0;
        for (const { text } of played(arrivals, frame)) {
          end += text.length;
          expect(ends).toContain(end);
        }
      }),
    );
  });

  it("shows a part of a character rather than keep it for longer than the bound", () => {
    const shown = played([
      { at: 0, text: "👨\u200d" },
      { at: 2_000, text: "👩" },
    ]);
    expect(shown[0]?.text).toBe("👨\u200d");
    expect(shown[0]?.at).toBeLessThanOrEqual(LIMITS.behindMs + FRAME_MS);
  });

  it("does not hold the first character back", () => {
    expect(played([{ at: 0, text: "Hello there" }])[0]).toEqual({ at: 0, text: "H" });
  });

  it.each([20, 80, 600, 4_000])("settles at the rate of arrival: %d characters a second", (rate) => {
    const arrivals = Array.from({ length: 120 }, (_, index) => ({ at: index * 50, text: "x".repeat(rate / 20) }));
    const settled = played(arrivals).filter(({ at }) => at > 1_000 && at < 5_000);
    const characters = joined(settled).length;
    expect(characters / 4).toBeGreaterThan(rate * 0.95);
    expect(characters / 4).toBeLessThan(rate * 1.05);
    const most = Math.max(...settled.map(({ text }) => text.length));
    expect(most).toBeLessThanOrEqual(Math.ceil((rate / 60) * 1.4) + 1);
  });

  it("bridges a stall and spreads a burst", () => {
    const before = Array.from({ length: 40 }, (_, index) => ({ at: index * 50, text: "words" }));
    const after = Array.from({ length: 40 }, (_, index) => ({ at: 2_250 + index * 50, text: "words" }));
    const burst = { at: 2_250, text: "words".repeat(6) };
    const shown = played([...before, burst, ...after]);
    expect(Math.max(...gaps(shown))).toBeLessThan(100);
    expect(Math.max(...shown.map(({ text }) => text.length))).toBeLessThan(10);
  });

  it("cuts the p95 of the gap to less than half with the demo model's profile, stalls of up to 400 ms and all", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const arrivals = demoArrivals(seed);
      const [onArrival, smoothed] = [arrivals, played(arrivals)].map((pieces) => percentile(gaps(pieces), 0.95));
      expect(smoothed).toBeLessThanOrEqual((onArrival ?? 0) / 2);
    }
  });

  it("gives everything at once when asked to", () => {
    const playout = new Playout();
    playout.push("one ", 0);
    playout.push("two", 10);
    expect([playout.flush(), playout.isWaiting, playout.take(400)]).toEqual(["one two", false, ""]);
  });
});
