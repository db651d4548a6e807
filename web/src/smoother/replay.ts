import { Playout } from "./playout.ts";

/** Text, and when it came or was shown, in milliseconds. */
export interface TimedText {
  readonly at: number;
  readonly text: string;
}

/** What a screen that draws every `frameMs` shows of an answer that arrived like this; the last arrival is its end. */
export function replay(arrivals: readonly TimedText[], frameMs: number): TimedText[] {
  const playout = new Playout();
  const shown: TimedText[] = [];
  let next = 0;
  for (let now = arrivals[0]?.at ?? 0; next < arrivals.length || playout.isWaiting; now += frameMs) {
    for (let arrival = arrivals[next]; arrival !== undefined && arrival.at <= now; arrival = arrivals[next]) {
      playout.push(arrival.text, arrival.at);
      next += 1;
      if (next === arrivals.length) playout.end(arrival.at);
    }
    const text = playout.take(now);
    if (text !== "") shown.push({ at: now, text });
  }
  return shown;
}
