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
