import * as LIMITS from "./limits.ts";

/**
 * Makes a call that is answered at once where the server can be reached. While it is not, the call is made once more beside
 * the first one, and once more: browsers keep connections, and the first may have gone into one that is dead. Gives the first
 * answer, or the first failure; the other calls are aborted.
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
      call(AbortSignal.any([signal, end.signal])).then(
        (answer) => finish(end) && settle(answer),
        (error: unknown) => finish() && fail(error),
      );
      if (ends.length < LIMITS.hedges) timer = setTimeout(begin, LIMITS.hedgeMs);
    };
    begin();
  });
}
