// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { decided } from "../../src/element/markdown/open-end.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

describe("decided", () => {
  it.each([
    // Marks alone may become anything.
    ["a **", "a "],
    ["a **strong*", "a **strong"],
    ["a\n*", "a\n"],
    ["a\n-", "a\n"],
    ["a\n1", "a\n"],
    ["a\n1.", "a\n"],
    ["a\n2024", "a\n2024"],
    ["42", "42"],
    ["a\n\n##", "a\n\n"],
    ["a\n\n> ", "a\n\n"],
    ["a\n```js", "a\n"],
    ["2 * 3", "2 * 3"],
    ["`x", "`x"],
    ["`x`", "`x"],
    // Tasks, alerts, footnotes, definitions
    ["- [", "- "],
    ["- [x", "- "],
    ["- [x]", "- "],
    ["- [x] a", "- [x] a"],
    ["- a\n  ```\n  | b*", "- a\n  ```\n  | b*"],
    ["- a\n  ```\n  b\n  ``", "- a\n  ```\n  b\n"],
    ["> [!NO", ""],
    ["> [!NOTE]", ""],
    ["> [!NOTE]\n", "> [!NOTE]\n"],
    ["[^1]", ""],
    ["[^1]: a", "[^1]: a"],
    ["[a]: ", ""],
    // The end of a line
    ["so !", "so "],
    ["so!", "so!"],
    ["a <https://b.c", "a https://b.c"],
    ["| a <b", "| a \n|---|"],
    // Tables
    ["| a", "| a\n|---|"],
    ["| a | b |", "| a | b |\n|---|---|"],
    ["So:\n| a |", "So:\n| a |\n|---|"],
    ["> | a |", "> | a |\n> |---|"],
    ["| a | b |\n", "| a | b |\n|---|---|"],
    ["| a | b |\n|:-:|-", "| a | b |\n|:-:|---|"],
    ["|a|b|\n|", "|a|b|\n|---|---|"],
    ["| a \\| b", "| a \\| b\n|---|"],
    ["| a |\n|--|\n| b", "| a |\n|--|\n| b"],
    ["| a |\n|--|\n|", "| a |\n|--|\n"],
    ["|x| is", "|x| is"],
  ])("of %j is %j", (source, shown) => {
    expect(decided(source)).toBe(shown);
  });

  it.each(["-", "*", "> ", "| ", "`", "[", "[^", "<", "!", "1", " ", "\\", "|:-"])(
    "takes a time that grows as the line does, of many %j",
    (piece) => {
      const begun = performance.now();
      decided(`| a |\n${piece.repeat(100_000)}x`);
      decided(`a\n${piece.repeat(100_000)}`);
      expect(performance.now() - begun).toBeLessThan(1_000); // its square would take minutes
    },
  );
});

/** The text that a reader sees, without blanks and without what isn't the model's. */
function readable(element: HTMLElement): string {
  const copy = element.cloneNode(true) as HTMLElement;
  for (const ours of copy.querySelectorAll("button, .code-bar, .alert-title")) ours.remove();
  return (copy.textContent ?? "").replace(/\s/g, "");
}

const DOCUMENT = `## A *title* with \`code\`

Some **strong, *and nested* text**, ~~gone~~, \`code\`, [a link](https://example.com/a_(b) "title") and snake_case, 2*3.
A footnote[^1], an address https://example.com/x, one <https://example.com/y> and an index[0]. これは**「重要」**です

![A picture](https://images.example/p.png?q=1)

- [ ] to *do*
- [x] done
  1. nested, **strong**
  2. \`x\`
     - deeper

| Left | **Right** |
|:-----|------:|
| a<br>b | [l](https://example.com/) |
| \`c\` | d |

> [!WARNING]
> Mind **this**.

> Quoted, ***both***

\`\`\`js
const a = "**b**";
\`\`\`

[^1]: What is said, with [a link](https://example.com/z).

***

The end.
`;

describe("a text that arrives", () => {
  it("is at each moment the beginning of what it is in the end: no mark is seen, and nothing goes again", async () => {
    const whole = document.createElement("div");
    const atOnce = new StreamingMarkdown(whole);
    atOnce.append(DOCUMENT);
    await atOnce.end();
    const final = readable(whole);
    expect(final).not.toMatch(/~~|\]\(|\[\^|!\[|<br|\[!/);
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    for (const [position, character] of [...DOCUMENT].entries()) {
      markdown.append(character);
      const shown = readable(element);
      if (!final.startsWith(shown)) expect([DOCUMENT.slice(0, position + 1), shown]).toBe(final);
    }
  });

  it("is a table from its first cell, and a link's text at once", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("See [the docs](https://exam");
    expect(element.textContent).toBe("See the docs");
    markdown.append("ple.com).\n\n| Le");
    expect(element.querySelector("a")?.href).toBe("https://example.com/");
    expect(element.querySelector("th")?.textContent).toBe("Le");
    const table = element.querySelector("table");
    markdown.append("ft | Right |\n|--|--|\n| 1");
    expect(element.querySelector("table")).toBe(table);
  });

  it("ends with what was written", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("It is **open, [as is](https://a.b");
    expect(element.textContent).toBe("It is open, as is");
    void markdown.end();
    expect(element.textContent).toBe("It is **open, [as is](https://a.b");
  });
});
