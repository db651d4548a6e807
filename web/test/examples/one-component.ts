/** As much of React as one component with hooks needs; an effect runs when the component is rendered. */
export class OneComponent {
  readonly #slots: unknown[] = [];
  readonly #effects = new Map<
    number,
    { readonly inputs: readonly unknown[]; readonly end: (() => void) | undefined }
  >();
  #next = 0;

  /** Renders: calls `component`, whose hooks are told apart by their order. */
  render<T>(component: () => T): T {
    this.#next = 0;
    return component();
  }

  useState<T>(initial: T): [T, (change: T | ((before: T) => T)) => void] {
    const slot = this.#slot(() => initial);
    const set = (change: T | ((before: T) => T)): void => {
      this.#slots[slot] = change instanceof Function ? change(this.#slots[slot] as T) : change;
    };
    return [this.#slots[slot] as T, set];
  }

  useRef<T>(initial: T): { current: T } {
    return this.#slots[this.#slot(() => ({ current: initial }))] as { current: T };
  }

  useCallback<T>(callback: T): T {
    this.#next += 1;
    return callback;
  }

  useEffect(effect: () => (() => void) | undefined, inputs: readonly unknown[]): void {
    const slot = this.#next++;
    const before = this.#effects.get(slot);
    if (before?.inputs.every((input, place) => input === inputs[place])) return;
    before?.end?.();
    this.#effects.set(slot, { inputs, end: effect() });
  }

  #slot(initial: () => unknown): number {
    const slot = this.#next++;
    if (!(slot in this.#slots)) this.#slots[slot] = initial();
    return slot;
  }
}
