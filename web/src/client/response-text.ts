/** What became of something that was offered to a {@link ResponseText}. */
export type Outcome =
  /** It was new; `text` is what the response's text has grown by. */
  | { readonly kind: "appended"; readonly text: string }
  /** Only the text up to `lastIndex` still counts; when that is not `complete`, resume after `lastIndex`. */
  | { readonly kind: "restarted"; readonly complete: boolean }
  /** It was held already, and changed nothing. */
  | { readonly kind: "duplicate" }
  /** Something before it is missing: resume after `lastIndex`. */
  | { readonly kind: "gap" };

/** Where a restart stands in the log, and what it leaves of the text before it; see the protocol's frame. */
export interface Restart {
  readonly index: number;
  readonly from_index: number;
  readonly epoch: number;
}

/** The `index` of a restart that is no entry of the log: the whole log follows. */
const EVERYTHING = -1;

/** Up to which length the text is that of the indexes up to and including `index`. */
interface Boundary {
  readonly index: number;
  readonly length: number;
}

const EMPTY: Boundary = { index: -1, length: 0 };

/** The text of one response, put together so that every index counts exactly once, whatever order things arrive in. */
export class ResponseText {
  #text = "";
  #boundaries: Boundary[] = [EMPTY];
  #epoch = 1;

  get text(): string {
    return this.#text;
  }

  /** The last index that is held; -1 for none. */
  get lastIndex(): number {
    return (this.#boundaries.at(-1) ?? EMPTY).index;
  }

  /** The newest owner of the response in whose log all that is held stands. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Takes the server's word that all that is held stands in the log of the owner `epoch`. */
  confirm(epoch: number): void {
    this.#epoch = Math.max(this.#epoch, epoch);
  }

  /** Offers the text of the indexes `from` to `index`, both included. */
  append(from: number, index: number, text: string): Outcome {
    if (index <= this.lastIndex) return { kind: "duplicate" };
    const fresh = this.#withoutHeldPart(from, text);
    if (fresh === undefined) return { kind: "gap" };
    this.#text += fresh;
    this.#mark(index);
    return { kind: "appended", text: fresh };
  }

  /** Offers a restart. A new owner's also takes away what an earlier one has sent under its index or a later one. */
  restart({ index, from_index: fromIndex, epoch }: Restart): Outcome {
    const isHeld = index <= this.lastIndex && epoch <= this.#epoch;
    if (isHeld && index !== EVERYTHING) return { kind: "duplicate" };
    if (index > this.lastIndex + 1) return { kind: "gap" };
    const complete = this.keep(fromIndex);
    if (complete) {
      this.confirm(epoch);
      if (index !== EVERYTHING) this.#mark(index);
    }
    return { kind: "restarted", complete };
  }

  /**
   * Cuts the text back to what it was at `index`. When `index` lies inside a piece that came joined, the whole piece
   * goes (`lastIndex` then says what is left) and the answer is false: fetch it again from there.
   */
  keep(index: number): boolean {
    if (index >= this.lastIndex) return true;
    this.#boundaries = this.#boundaries.filter((boundary) => boundary.index <= index);
    this.#text = this.#text.slice(0, (this.#boundaries.at(-1) ?? EMPTY).length);
    return this.lastIndex === index;
  }

  #mark(index: number): void {
    this.#boundaries.push({ index, length: this.#text.length });
  }

  /** The part of a piece that is not held yet; undefined when it does not join on to what is held. */
  #withoutHeldPart(from: number, text: string): string | undefined {
    if (from > this.lastIndex + 1) return undefined;
    const start = this.#boundaries.findLast((boundary) => boundary.index === from - 1);
    if (!start) return undefined;
    const held = this.#text.slice(start.length);
    return text.startsWith(held) ? text.slice(held.length) : undefined;
  }
}
