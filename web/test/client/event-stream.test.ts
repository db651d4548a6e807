import { describe, expect, it } from "vitest";
import { EventStream } from "../../src/client/event-stream.ts";
import { SeededRandom } from "./seeded-random.ts";

/** The data of the events in `text`, which comes in the given parts. */
function read(...parts: string[]): string[] {
  const events = new EventStream();
  return parts.flatMap((part) => [...events.take(part)].map(({ data }) => data));
}

describe("EventStream", () => {
  it("takes the data, and leaves comments and other fields", () => {
    expect(read("retry: 500\n\n: still here\n\nevent: x\nid: 3.2\ndata: {}\n\n")).toEqual(["{}"]);
  });

  it("joins several lines of data, and takes away one space at most", () => {
    expect(read("data:a\ndata:  b\ndata\ndata: c\n\n")).toEqual(["a\n b\nc"]);
  });

  it("gives each event its own id, and what comments say", () => {
    const comments: string[] = [];
    const events = new EventStream((comment) => comments.push(comment));
    const text = ": reconnect 5\nid: 1.2\ndata: a\n\ndata: b\n\nid:3\r\ndata: c\r\n\r\n";
    expect([...events.take(text)]).toEqual([
      { id: "1.2", data: "a" },
      { id: "", data: "b" },
      { id: "3", data: "c" },
    ]);
    expect(comments).toEqual(["reconnect 5"]);
  });

  it("gives an event only when it is whole", () => {
    expect(read("data: a\n")).toEqual([]);
    expect(read("data: a\n", "\n")).toEqual(["a"]);
  });

  it.each(["\n", "\r\n", "\r"])("reads the same wherever it is cut, with %j at the end of lines", (end) => {
    const text = [
      ": hello",
      "data: one",
      "",
      "id: 1",
      "data: t\u{1F600}o",
      "data: 2",
      "",
      "",
      "data: three",
      "",
      ": x",
    ].join(end);
    for (let seed = 0; seed < 200; seed += 1) {
      const random = new SeededRandom(seed);
      const parts: string[] = [];
      for (let rest = text; rest !== ""; ) {
        const length = random.between(1, 7);
        parts.push(rest.slice(0, length));
        rest = rest.slice(length);
      }
      expect(read(...parts)).toEqual(["one", "t\u{1F600}o\n2", "three"]);
    }
  });
});
