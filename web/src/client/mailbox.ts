/** Items that one side puts in as they come, and the other takes out one at a time. */
export class Mailbox<T> {
  readonly #items: T[] = [];
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void) | undefined;

  put(item: T): void {
    this.#items.push(item);
    this.#wake?.();
  }

  /** Ends the mailbox: once it is empty, `take` rejects with `error`. Only the first failure counts. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake?.();
  }

  /** The next item, in order; undefined when none has come for `patienceMs` milliseconds. */
  async take(patienceMs: number): Promise<T | undefined> {
    if (this.#items.length === 0 && !this.#failure) await this.#arrival(patienceMs);
    if (this.#items.length > 0) return this.#items.shift();
    if (this.#failure) throw this.#failure.error;
    return undefined;
  }

  #arrival(patienceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, patienceMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}
