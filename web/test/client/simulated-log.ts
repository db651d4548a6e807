/** A restart; `epoch` where a new owner begins with it, else 0. */
export interface Marker {
  readonly fromIndex: number;
  readonly epoch: number;
}

export type Entry = string | Marker;

export interface ResumePoint {
  readonly nextIndex: number;
  /** The epoch of the log that replaces everything which the reader holds; undefined where it goes on exactly. */
  readonly replacedBy: number | undefined;
}

/** A response's log, or a task's copy of it, by the server's rules. */
export class SimulatedLog {
  readonly entries: Entry[];
  closed = false;

  constructor(entries: readonly Entry[] = []) {
    this.entries = [...entries];
  }

  get nextIndex(): number {
    return this.entries.length;
  }

  /** The owner that the log is by, as far as it goes. */
  get epoch(): number {
    return Math.max(1, ...this.entries.map((entry) => (typeof entry === "string" ? 0 : entry.epoch)));
  }

  /** Where a reader goes on that holds everything up to `after` of the log of `epoch`; undefined where this copy is behind. */
  resumePoint(after: number, epoch: number): ResumePoint | undefined {
    const later = this.entries.findIndex((entry) => typeof entry !== "string" && entry.epoch > epoch);
    if (later >= 0 && later <= after) return { nextIndex: 0, replacedBy: this.epoch };
    return after < this.nextIndex ? { nextIndex: after + 1, replacedBy: undefined } : undefined;
  }

  /** The text from `first` on that stands, and after which index it replaces what was before, if it does. */
  read(first: number): { readonly text: string; readonly replacedAfter: number | undefined } {
    let standing: { readonly index: number; readonly text: string }[] = [];
    let replacedAfter: number | undefined;
    for (const [offset, entry] of this.entries.slice(first).entries()) {
      if (typeof entry === "string") {
        standing.push({ index: first + offset, text: entry });
        continue;
      }
      standing = standing.filter(({ index }) => index <= entry.fromIndex);
      if (entry.fromIndex < (replacedAfter ?? first - 1)) replacedAfter = entry.fromIndex;
    }
    return { text: standing.map(({ text }) => text).join(""), replacedAfter };
  }

  /** The indexes of the deltas that stand. */
  get standing(): number[] {
    let standing: number[] = [];
    for (const [index, entry] of this.entries.entries()) {
      if (typeof entry === "string") standing.push(index);
      else standing = standing.filter((kept) => kept <= entry.fromIndex);
    }
    return standing;
  }
}
