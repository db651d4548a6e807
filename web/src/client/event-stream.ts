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

/** When a reader should move on to the next connection, in milliseconds, if a comment of a server that leaves says so. */
export function moveAfterMs(comment: string): number | undefined {
  const said = /^reconnect (\d+)$/.exec(comment);
  return said ? Number(said[1]) : undefined;
}
