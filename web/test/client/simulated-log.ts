/** A restart; `epoch` where a new owner begins with it, else 0. */
export interface Marker {
  readonly fromIndex: number;
  readonly epoch: number;
}

/** What is no text; its fields are the wire's. */
export interface Event {
  readonly kind: "reasoning" | "call" | "arguments" | "call_end" | "result" | "data";
  readonly text?: string;
  readonly value?: unknown;
  readonly call?: number;
  readonly id?: string;
  readonly name?: string;
}

export type Entry = string | Event | Marker;

export function isMarker(entry: Entry): entry is Marker {
  return typeof entry === "object" && "fromIndex" in entry;
}

/** Both as one, if they are neighbours that come joined. */
export function joined(one: Entry | undefined, other: Entry | undefined): string | Event | undefined {
  if (typeof one === "string" && typeof other === "string") return one + other;
  if (typeof one !== "object" || typeof other !== "object" || isMarker(one) || isMarker(other)) return undefined;
  if (!["reasoning", "arguments"].includes(one.kind) || one.kind !== other.kind || one.call !== other.call)
    return undefined;
  return { ...one, text: `${one.text}${other.text}` };
}

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
    return Math.max(1, ...this.entries.map((entry) => (isMarker(entry) ? entry.epoch : 0)));
  }

  /** Where a reader goes on that holds everything up to `after` of the log of `epoch`; undefined where this copy is behind. */
  resumePoint(after: number, epoch: number): ResumePoint | undefined {
    const later = this.entries.findIndex((entry) => isMarker(entry) && entry.epoch > epoch);
    if (later >= 0 && later <= after) return { nextIndex: 0, replacedBy: this.epoch };
    return after < this.nextIndex ? { nextIndex: after + 1, replacedBy: undefined } : undefined;
  }

  /** What stands from `first` on, as polls have it, and after which index it replaces what was before, if it does. */
  read(first: number): {
    readonly text: string;
    readonly events: readonly object[];
    readonly replacedAfter: number | undefined;
  } {
    let replacedAfter: number | undefined;
    for (const entry of this.entries.slice(first)) {
      if (isMarker(entry) && entry.fromIndex < (replacedAfter ?? first - 1)) replacedAfter = entry.fromIndex;
    }
    let text = "";
    const events: object[] = [];
    for (const index of this.standing.filter((standing) => standing >= first)) {
      const entry = this.entries[index];
      if (typeof entry === "string") text += entry;
      else events.push({ index, at: text.length, ...entry });
    }
    return { text, events, replacedAfter };
  }

  /** The indexes of what stands. */
  get standing(): number[] {
    let standing: number[] = [];
    for (const [index, entry] of this.entries.entries()) {
      if (isMarker(entry)) standing = standing.filter((kept) => kept <= entry.fromIndex);
      else standing.push(index);
    }
    return standing;
  }

  /** What stands, joined. */
  get contents(): (string | Event)[] {
    const contents: (string | Event)[] = [];
    for (const index of this.standing) {
      const entry = this.entries[index] as string | Event;
      const both = joined(contents.at(-1), entry);
      if (both === undefined) contents.push(entry);
      else contents[contents.length - 1] = both;
    }
    return contents;
  }
}
