// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { markdownParser } from "../../src/element/markdown/markdown-parser.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

describe("markdownParser", () => {
  it("is one for all answers", () => {
    expect(markdownParser()).toBe(markdownParser());
  });

  it("keeps what one answer defines out of another", () => {
    const [first, second] = [document.createElement("div"), document.createElement("div")];
    const [defining, using] = [new StreamingMarkdown(first), new StreamingMarkdown(second)];
    defining.append("[a]: https://a.b\n\n[a] is one.\n\n");
    using.append("[a] is none.\n\n");
    defining.end();
    using.end();
    expect(first.querySelectorAll("a")).toHaveLength(1);
    expect(second.querySelectorAll("a")).toHaveLength(0);
  });
});
