/** Listeners by the event that they listen to. */
export class Emitter<Events> {
  readonly #listeners = new Set<{ readonly name: keyof Events; readonly listener: (detail: never) => void }>();

  /** Calls `listener` whenever `event` happens. Returns what ends that. */
  on<E extends keyof Events>(event: E, listener: (detail: Events[E]) => void): () => void {
    const entry = { name: event, listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** A listener that throws disturbs neither the others nor whoever emits; its error is reported as uncaught. */
  emit<E extends keyof Events>(event: E, detail: Events[E]): void {
    for (const entry of this.#listeners) {
      try {
        if (entry.name === event) (entry.listener as (detail: Events[E]) => void)(detail);
      } catch (error) {
        globalThis.reportError?.(error);
      }
    }
  }
}
