// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { markdownParser } from "../../src/element/markdown/markdown-parser.ts";
import { LONGEST_OPEN_BLOCK, StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

const DOCUMENT = `# A title

A paragraph with **strong**, *emphasis*, \`code\`, ~~gone~~ and [a link](https://example.com/a "t").
It goes on here,
and here.

- one
- two

  with a paragraph
  - nested

      code in it
3. three

> quoted
lazily

| a | b |
|---|:-:|
| 1 | 2 |

\`\`\`js
const a = "<b>";

\`\`
   indented
\`\`\`
Behind it.

    indented code

~~~
tildes \`\`\`
~~~

Set
===

***

- [x] task
- [ ] with *more*

> [!TIP]
> An alert[^a], and one[^none].

![image](https://a.b/c.png) <https://a.b>, 「**「強」**」

[^a]: A footnote
    of two lines.

1. a
2. b
`;

/** The HTML of `pieces`, rendered one after the other. */
async function rendered(...pieces: string[]): Promise<string> {
  const element = document.createElement("div");
  const markdown = new StreamingMarkdown(element);
  for (const piece of pieces) markdown.append(piece);
  await markdown.end();
  return element.innerHTML;
}

/** `text`, cut at these places. */
function cut(text: string, places: readonly number[]): string[] {
  const sorted = [0, ...places.map((place) => place % text.length).sort((a, b) => a - b), text.length];
  return sorted.slice(1).map((end, position) => text.slice(sorted[position], end));
}

const GITHUB = [
  "[^a]",
  "[^a]: ",
  "> [!NOTE]\n",
  "- [ ] ",
  "<br>",
  "![x](https://a.b/c.png)",
  "~~",
  "「",
  "| a | b |\n",
  "| - |",
  "$",
];

const anyMarkdown = fc
  .array(
    fc.constantFrom(
      ...GITHUB,
      ..."# |> |- |1. |    |\n|\n\n|```|```js\n|~~~\n|word| |**|*|_|`|[|](https://a.b)|<b>|a|b | \\| |---|===|\\|--\\||*\n".split(
        /(?<!\\)\|/,
      ),
    ),
    { maxLength: 25 },
  )
  .map((parts) => parts.join("").replaceAll("\\|", "|"));

describe("StreamingMarkdown", () => {
  it("renders what it should", async () => {
    const html = await rendered(DOCUMENT);
    for (const part of [
      '<h3 data-depth="1" dir="auto">A title</h3>',
      "<strong>strong</strong>",
      '<a href="https://example.com/a" title="t" target="_blank" rel="noopener noreferrer nofollow">a link</a>',
      '<td align="center">2</td>',
      'const a = "&lt;b&gt;";\n\n``\n   indented</code>',
      '<h3 data-depth="1" dir="auto">Set</h3>',
      'aria-label="Completed task"',
      '<p class="alert-title">Tip</p>',
      ">Load image from a.b</button>",
      "<strong>「強」</strong>",
      'aria-label="Footnote a"',
      "one[^none].",
    ]) {
      expect(html).toContain(part);
    }
    expect(html).not.toContain("style=");
  });

  it("renders the same whole and token by token", async () => {
    expect(await rendered(...DOCUMENT)).toBe(await rendered(DOCUMENT));
  });

  it("renders the same however a text is cut", async () => {
    await fc.assert(
      fc.asyncProperty(anyMarkdown, fc.array(fc.nat(), { maxLength: 8 }), async (text, places) => {
        expect(await rendered(...cut(`${text}.`, places))).toBe(await rendered(`${text}.`));
      }),
      { numRuns: 50 },
    );
  });

  it("gives an empty list no direction of what comes behind it", async () => {
    const text = "*\n[^a]```js\n```js\n.";
    expect(await rendered(...text)).toBe(await rendered(text));
    expect(await rendered(text)).toContain("<ul>\n<li></li>");
  });

  it("links what a definition further down stands for", async () => {
    const text = "See [it].\n\nMore.\n\n[it]: https://example.com/it\n";
    expect(await rendered(...text)).toContain('href="https://example.com/it"');
    expect(await rendered(...text)).toBe(await rendered(text));
  });

  it("does not wait for the end to show an open block", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("One.\n\n```py\nprint(1)\npri");
    expect(element.querySelector("code")?.textContent).toBe("print(1)\npri");
    markdown.append("nt(2)\n``");
    expect(element.querySelector("code")?.textContent).toBe("print(1)\nprint(2)");
    markdown.append("`\nTwo.");
    expect(element.querySelector("p:last-child")?.textContent).toBe("Two.");
  });

  it("leaves settled blocks, and what is equal in the open one, untouched", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("One.\n\n- two\n- thr");
    const [settled, item] = [element.querySelector("p"), element.querySelector("li")];
    markdown.append("ee\n- four\n\nFive");
    expect(element.querySelector("p")).toBe(settled);
    expect(element.querySelector("li")).toBe(item);
  });

  it("begins again", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("```\nold");
    markdown.replace("# New");
    expect(element.innerHTML).toBe('<h3 data-depth="1" dir="auto">New</h3>');
    expect(markdown.source).toBe("# New");
  });

  it.each([
    ["of many blocks", "A paragraph of some words.\n\n".repeat(300)],
    ["that is one block of code", `\`\`\`\n${"const a = 1;\n".repeat(1_200)}`],
    ["that is one paragraph", "words and words ".repeat(600)],
  ])("parses little again of a long text %s", async (_, text) => {
    const blocks = vi.spyOn(markdownParser().block, "parse");
    const deltas = text.match(/.{1,200}/gs) ?? [];
    await rendered(...deltas);
    const parsed = blocks.mock.calls.reduce((characters, [source]) => characters + source.length, 0);
    expect(parsed / deltas.length).toBeLessThanOrEqual(LONGEST_OPEN_BLOCK);
    if (text.includes("\n")) expect(parsed).toBeLessThan(6 * text.length);
  });
});
