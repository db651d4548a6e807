/** Takes server-sent events out of a stream of text, wherever that is cut. */
export class EventStream {
  #rest = "";
  #data: string[] = [];

  /** The data of the events that are whole with `chunk`. Comments and every other field are left out. */
  *take(chunk: string): Generator<string, void, void> {
    // A carriage return at the very end may be half of a line's end.
    const lines = (this.#rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || this.#data.length === 0) continue;
      yield this.#data.join("\n");
      this.#data = [];
    }
  }
}
