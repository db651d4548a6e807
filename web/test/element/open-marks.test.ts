// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { withMarksClosed } from "../../src/element/markdown/open-marks.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

describe("withMarksClosed", () => {
  it.each([
    ["a **stro", "a **stro**"],
    ["a **strong *", "a **strong**"],
    ["a **strong*", "a **strong**"],
    ["a **strong** and", "a **strong** and"],
    ["a `cod", "a `cod`"],
    ["a ``co", "a ``co``"],
    ["a `code` and **st", "a `code` and **st**"],
    ["a `**` b", "a `**` b"],
    ["a *", "a "],
    ["a **", "a "],
    ["*", "*"],
    ["a\n*", "a\n*"],
    ["**one\n\ntwo", "**one\n\ntwo"],
    ["```\ncode", "```\ncode"],
    ["2 * 3", "2 * 3"],
  ])("of %j makes %j", (source, closed) => {
    expect(withMarksClosed(source)).toBe(closed);
  });

  it("shows no mark of what is strong or code while it arrives, and ends with what was written", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    for (const character of "It is **very even** and `fast`. **") {
      markdown.append(character);
      expect(element.textContent).not.toMatch(/[*`]{2}|`\w/);
    }
    markdown.end();
    expect(element.textContent).toBe("It is very even and fast. **");
  });
});
