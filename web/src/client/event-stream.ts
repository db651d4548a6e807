/** Takes server-sent events out of a stream of text, wherever that is cut. */
export class EventStream {
  readonly #onComment: (comment: string) => void;
  #rest = "";
  #data: string[] = [];

  /** `onComment` is told what the comments say. */
  constructor(onComment: (comment: string) => void = () => {}) {
    this.#onComment = onComment;
  }

  /** The data of the events that are whole with `chunk`. Every other field is left out. */
  *take(chunk: string): Generator<string, void, void> {
    // A carriage return at the very end may be half of a line's end.
    const lines = (this.#rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith(":")) this.#onComment(line.slice(1).trim());
      if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || this.#data.length === 0) continue;
      yield this.#data.join("\n");
      this.#data = [];
    }
  }
}

/** Milliseconds until the reader should open its next connection, from the comment of a server that is leaving. */
export function moveAfterMs(comment: string): number | undefined {
  const match = /^reconnect (\d+)$/.exec(comment);
  return match ? Number(match[1]) : undefined;
}
