/** One server-sent event; `id` is empty where it has none of its own. */
export interface ServerEvent {
  readonly id: string;
  readonly data: string;
}

/** Takes server-sent events out of a stream of text, wherever that is cut. */
export class EventStream {
  readonly #onComment: (comment: string) => void;
  #rest = "";
  #id = "";
  #data: string[] = [];

  /** `onComment` receives the text of each comment. */
  constructor(onComment: (comment: string) => void = () => {}) {
    this.#onComment = onComment;
  }

  /** The events that are whole with `chunk`. Every other field is left out. */
  *take(chunk: string): Generator<ServerEvent, void, void> {
    // A carriage return at the very end may be half of a line's end.
    const lines = (this.#rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const value = line.replace(/^\w*: ?/, "");
      if (line.startsWith(":")) this.#onComment(value.trim());
      if (line.startsWith("id:")) this.#id = value;
      if (line.startsWith("data:")) this.#data.push(value);
      if (line !== "" || this.#data.length === 0) continue;
      yield { id: this.#id, data: this.#data.join("\n") };
      this.#id = "";
      this.#data = [];
    }
  }
}

/** Milliseconds until the reader should open its next connection, from the comment of a server that is leaving. */
export function moveAfterMs(comment: string): number | undefined {
  const match = /^reconnect (\d+)$/.exec(comment);
  return match ? Number(match[1]) : undefined;
}
