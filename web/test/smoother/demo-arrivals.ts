import type { TimedText } from "../../src/smoother/replay.ts";
import { SeededRandom } from "../client/seeded-random.ts";

const WINDOW_MS = 50;

/** 600 tokens with the timing of the demo model (fargate_handler/token_sources/demo/script.py), cut every 50 ms. */
export function demoArrivals(seed: number): TimedText[] {
  const random = new SeededRandom(seed);
  const arrivals: TimedText[] = [];
  let [at, burst, waiting, dueAt] = [0, 0, "", 0];
  for (let token = 0; token < 600; token += 1) {
    if (waiting !== "" && at >= dueAt) {
      arrivals.push({ at: dueAt, text: waiting });
      [waiting, dueAt] = ["", dueAt + WINDOW_MS];
    }
    waiting += " word";
    if (at >= dueAt) {
      arrivals.push({ at, text: waiting });
      [waiting, dueAt] = ["", at + WINDOW_MS];
    }
    const chance = random.next();
    if (burst === 0 && chance >= 0.01 && chance < 0.03) burst = 5 + Math.floor(random.next() * 11);
    if (burst > 0) [burst, at] = [burst - 1, at + 2];
    else at += chance < 0.01 ? 150 + random.next() * 250 : 20 + random.next() * 60;
  }
  return waiting === "" ? arrivals : [...arrivals, { at, text: waiting }];
}

/** The times between one and the next. */
export function gaps(pieces: readonly TimedText[]): number[] {
  return pieces.slice(1).map(({ at }, position) => at - (pieces[position]?.at ?? Number.NaN));
}

/** The value that a share `q` of the values does not exceed. */
export function percentile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(q * sorted.length) - 1] ?? Number.NaN;
}
