import { firstOf } from "./delay.ts";
import * as LIMITS from "./limits.ts";

/**
 * Makes a call that a reachable server answers at once. Until the answer comes, the call is repeated twice besides: the
 * browser may have sent the first one into a dead connection that it kept. Returns the first answer, or the first
 * failure; the other calls are aborted.
 */
export function hedged<T>(signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return new Promise((settle, fail) => {
    const ends: AbortController[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const finish = (winner?: AbortController): boolean => {
      if (isOver) return false;
      isOver = true;
      clearTimeout(timer);
      for (const end of ends) if (end !== winner) end.abort();
      return true;
    };
    const begin = () => {
      const end = new AbortController();
      ends.push(end);
      call(firstOf(signal, end.signal)).then(
        (answer) => finish(end) && settle(answer),
        (error: unknown) => finish() && fail(error),
      );
      if (ends.length < LIMITS.hedges) timer = setTimeout(begin, LIMITS.hedgeMs);
    };
    begin();
  });
}
