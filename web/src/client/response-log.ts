import type { AnswerPart } from "./api.ts";
import { type Content, isSamePlace } from "./content.ts";
import { after, type Growth, growthBy } from "./parts.ts";

/** What became of something that was offered to a {@link ResponseLog}. */
export type Outcome =
  /** It was new; `growth` is what the answer has grown by, if there is anything to see of it. */
  | { readonly kind: "appended"; readonly growth: Growth | undefined }
  /** Only what is up to `lastIndex` still counts; when that is not `complete`, resume after `lastIndex`. */
  | { readonly kind: "restarted"; readonly complete: boolean }
  /** It was held already, and changed nothing. */
  | { readonly kind: "duplicate" }
  /** Something before it is missing: resume after `lastIndex`. */
  | { readonly kind: "gap" };

/** Where a restart stands in the log, and what it leaves of what was before it; see the protocol's frame. */
export interface Restart {
  readonly index: number;
  readonly from_index: number;
  readonly epoch: number;
}

/** The `index` of a restart that is no entry of the log: the whole log follows. */
const EVERYTHING = -1;

/** What came for the indexes behind the piece before it, up to and including `index`; nothing for a restart. */
interface Piece {
  readonly index: number;
  readonly content?: Content;
}

const BEGINNING: Piece = { index: -1 };

/** What is held of one response's log, put together so that every index counts exactly once, whatever order things arrive in. */
export class ResponseLog {
  #pieces: Piece[] = [BEGINNING];
  #parts: readonly AnswerPart[] = [];
  #epoch = 1;

  /** What all that is held makes. */
  get parts(): readonly AnswerPart[] {
    return this.#parts;
  }

  /** The text of those. */
  get text(): string {
    return this.#parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  }

  /** The last index that is held; -1 for none. */
  get lastIndex(): number {
    return (this.#pieces.slice(-1)[0] ?? BEGINNING).index;
  }

  /** The newest owner of the response in whose log all that is held stands. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Takes the server's word that all that is held stands in the log of the owner `epoch`. */
  confirm(epoch: number): void {
    this.#epoch = Math.max(this.#epoch, epoch);
  }

  /** Offers what the indexes `from` to `index` stand for, both included. */
  append(from: number, index: number, content: Content): Outcome {
    const next = this.lastIndex + 1;
    if (index < next) return { kind: "duplicate" };
    const fresh = this.#withoutHeldPart(from, content);
    if (fresh === undefined) return { kind: "gap" };
    const growth = growthBy(this.#parts, fresh, next, index);
    this.#parts = after(this.#parts, growth);
    this.#pieces.push({ index, content: fresh });
    return { kind: "appended", growth };
  }

  /** Offers a restart. A new owner's also takes away what an earlier one has sent under its index or a later one. */
  restart({ index, from_index: fromIndex, epoch }: Restart): Outcome {
    const isHeld = index <= this.lastIndex && epoch <= this.#epoch;
    if (isHeld && index !== EVERYTHING) return { kind: "duplicate" };
    if (index > this.lastIndex + 1) return { kind: "gap" };
    const complete = this.keep(fromIndex);
    if (complete) {
      this.confirm(epoch);
      if (index !== EVERYTHING) this.#pieces.push({ index });
    }
    return { kind: "restarted", complete };
  }

  /**
   * Cuts back to what was held at `index`. When `index` lies inside a piece that came joined, the whole piece
   * goes (`lastIndex` then says what is left) and the answer is false: fetch it again from there.
   */
  keep(index: number): boolean {
    if (index >= this.lastIndex) return true;
    const kept = this.#pieces.filter((piece) => piece.index <= index);
    if (this.#pieces.slice(kept.length).some(isSeen)) this.#parts = partsOf(kept);
    this.#pieces = kept;
    return this.lastIndex === index;
  }

  /** The part of a piece that is not held yet; undefined when it does not join on to what is held. */
  #withoutHeldPart(from: number, content: Content): Content | undefined {
    const start = this.#pieces.map(({ index }) => index).lastIndexOf(from - 1);
    if (start < 0) return undefined;
    const held = this.#pieces.slice(start + 1).flatMap((piece) => piece.content ?? []);
    if (!held.every((other) => isSamePlace(other, content))) return undefined;
    const text = held.map((other) => other.text).join("");
    return content.text.startsWith(text) ? { ...content, text: content.text.slice(text.length) } : undefined;
  }
}

/** Whether something of the answer goes with it. */
function isSeen({ content }: Piece): boolean {
  return content !== undefined && !(content.kind === "text" && content.text === "");
}

function partsOf(pieces: readonly Piece[]): readonly AnswerPart[] {
  let parts: readonly AnswerPart[] = [];
  for (const { content, index } of pieces) {
    if (content) parts = after(parts, growthBy(parts, content, index, index));
  }
  return parts;
}
