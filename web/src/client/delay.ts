/** Waits `ms` milliseconds; rejects with the signal's reason as soon as it is aborted. */
export async function delay(ms: number, signal: AbortSignal): Promise<void> {
  await unlessAborted(signal, new Promise((resolve) => setTimeout(resolve, ms)));
}

/** What `result` gives; rejects with the signal's reason as soon as it is aborted. */
export function unlessAborted<T>(signal: AbortSignal, result: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort);
    result.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** A signal that is aborted with the first of `signals`. Safari has `AbortSignal.any` since 17.4, Firefox since 124. */
export function firstOf(...signals: AbortSignal[]): AbortSignal {
  if (AbortSignal.any) return AbortSignal.any(signals);
  const end = new AbortController();
  for (const signal of signals) {
    const abort = () => end.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort);
  }
  return end.signal;
}

/** A signal that is aborted after `ms` milliseconds. Safari has `AbortSignal.timeout` since 16. */
export function timeout(ms: number): AbortSignal {
  const end = new AbortController();
  setTimeout(() => end.abort(), ms);
  return end.signal;
}
