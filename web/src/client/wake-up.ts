import { delay } from "./delay.ts";

/** The parts of a page whose events suggest a try at once. Workers and servers lack most of them. */
interface Page {
  readonly document?: EventTarget & { readonly hidden: boolean };
  readonly navigator?: { readonly onLine?: boolean; readonly connection?: EventTarget };
  readonly addEventListener?: EventTarget["addEventListener"];
}

const page = globalThis as unknown as Page;

/** Whether a reader looks at the page. */
export function isHidden(): boolean {
  return page.document?.hidden === true;
}

/** Whether the browser believes that there is no network. It may be wrong, either way. */
export function isOffline(): boolean {
  return page.navigator?.onLine === false;
}

/** Calls `listener` whenever the network may be back, or the reader is. Returns what ends that. */
export function onWakeUp(listener: () => void): () => void {
  const end = new AbortController();
  const { signal } = end;
  const isSeen = () => isHidden() || listener();
  for (const event of ["online", "focus", "pageshow"]) page.addEventListener?.(event, listener, { signal });
  page.document?.addEventListener("visibilitychange", isSeen, { signal });
  page.navigator?.connection?.addEventListener("change", listener, { signal });
  return () => end.abort();
}

/** Ends the pauses before the next try: by events of the page, and by {@link ring}. */
export class WakeUps {
  readonly #listeners = new Set<() => void>();
  #end = () => {};

  /** Calls `listener` at each. Returns what ends that. */
  on(listener: () => void): () => void {
    if (this.#listeners.size === 0) this.#end = onWakeUp(() => this.ring());
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#end();
    };
  }

  /** Ends all pauses. */
  ring(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** Waits `ms` milliseconds, or until the next wake-up; rejects with the signal's reason as soon as it is aborted. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    let end = () => {};
    const woken = new Promise<void>((wake) => {
      end = this.on(wake);
    });
    await Promise.race([delay(ms, signal), woken]).finally(end);
  }
}
