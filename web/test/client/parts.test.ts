import { describe, expect, it } from "vitest";
import type { AnswerPart } from "../../src/client/api.ts";
import { CONTENT, type Content } from "../../src/client/content.ts";
import { after, growthBy } from "../../src/client/parts.ts";
import { shape } from "../../src/client/shape.ts";

/** The parts of an answer that got these, as they are on the wire. */
function partsOf(...contents: object[]): readonly AnswerPart[] {
  let parts: readonly AnswerPart[] = [];
  for (const content of contents) {
    const read: Content = shape(CONTENT)(content, "content");
    parts = after(parts, growthBy(parts, read, 0, 0));
  }
  return parts;
}

const TOOL = { type: "tool", call: 0, id: "call_1", name: "weather", arguments: "", isComplete: false };
const CALL = { kind: "call", call: 0, id: "call_1", name: "weather" };

describe("the parts of an answer", () => {
  it("are in order, and text of a kind is one", () => {
    const parts = partsOf(
      { kind: "reasoning", text: "It is ", name: "reasoning_content" },
      { kind: "reasoning", text: "cold." },
      { kind: "text", text: "Take " },
      { kind: "text", text: "a coat." },
      { kind: "refusal", text: "No." },
    );
    expect(parts).toEqual([
      { type: "reasoning", text: "It is cold." },
      { type: "text", text: "Take a coat." },
      { type: "refusal", text: "No." },
    ]);
  });

  it("have a tool with its arguments as they grow, and its result", () => {
    expect(partsOf(CALL)).toEqual([TOOL]);
    const growing = [
      CALL,
      { kind: "arguments", call: 0, text: '{"city":' },
      { kind: "arguments", call: 0, text: '"Oslo"}' },
    ];
    expect(partsOf(...growing)).toEqual([{ ...TOOL, arguments: '{"city":"Oslo"}' }]);
    const whole = [...growing, { kind: "call_end", call: 0 }];
    expect(partsOf(...whole)).toEqual([{ ...TOOL, arguments: '{"city":"Oslo"}', isComplete: true }]);
    const result = { kind: "result", id: "call_1", name: "weather", text: "-4 °C" };
    expect(partsOf(...whole, result)).toMatchObject([{ isComplete: true, result: "-4 °C" }]);
  });

  it("tell calls apart that come at once, and the last of those with one number", () => {
    const parts = partsOf(
      CALL,
      { ...CALL, call: 1, id: "call_2" },
      { kind: "arguments", call: 0, text: "a" },
      { kind: "arguments", call: 1, text: "b" },
      { ...CALL, id: "call_3" },
      { kind: "arguments", call: 0, text: "c" },
      { kind: "result", id: "call_1", text: "x" },
    );
    expect(parts).toMatchObject([
      { id: "call_1", arguments: "a", result: "x" },
      { id: "call_2", arguments: "b" },
      { id: "call_3", arguments: "c" },
    ]);
  });

  it("have sources, and data by its name", () => {
    const source = { url: "https://example.com", title: "Example" };
    const parts = partsOf(
      { kind: "data", name: "source", value: { ...source, start: 4 } },
      { kind: "data", name: "source", value: { url: source.url } },
      { kind: "data", name: "source", value: { title: "A book" } },
      { kind: "data", name: "source", value: { document: 4 } },
      { kind: "data", name: "chart", value: [1, 2] },
    );
    expect(parts).toEqual([
      { type: "source", ...source },
      { type: "source", url: source.url, title: "" },
      { type: "source", url: "", title: "A book" },
      { type: "data", name: "source", value: { document: 4 } },
      { type: "data", name: "chart", value: [1, 2] },
    ]);
  });

  it.each([
    ["what is of another answer than the first", { kind: "reasoning", choice: 1, text: "x" }],
    ["a kind that is not known", { kind: "smell", text: "x" }],
    ["arguments of no call", { kind: "arguments", call: 7, text: "x" }],
    ["a result of no call", { kind: "result", id: "call_7", text: "x" }],
    ["an empty delta", { kind: "text", text: "" }],
  ])("are left as they are by %s", (_name, content) => {
    const text = { kind: "text", text: "a" };
    expect(partsOf(text, content, text)).toEqual([{ type: "text", text: "aa" }]);
  });
});
