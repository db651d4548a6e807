// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { ALL_EXTRAS } from "../../src/element/extras/extras.ts";
import * as maths from "../../src/element/extras/maths.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";
import { cpuMs } from "../cpu-time.ts";

const CHARACTERS = 1_200;
const KINDS = [
  ["fences", "```js\n```\n"],
  ["formulas", "$x^2$ "],
  ["references", "[a] "],
  ["rows", "| **a** | `b` |\n"],
  ["footnotes", "[^a] "],
] as const;

/** `piece` again and again, with the definition of a link before or behind it, and a table's head. */
function textOf(piece: string, characters: number, isDefinedFirst: boolean): string {
  const definition = "[a]: https://a.b\n\n";
  const head = piece.startsWith("|") ? "| a | b |\n|---|---|\n" : "";
  const body = head + piece.repeat(characters / piece.length);
  return isDefinedFirst ? `${definition}${body}` : `${body}\n\n${definition}`;
}

/** What it takes to draw `text`: CPU in all and in the longest turn, and how many turns it were. */
async function costOf(text: string): Promise<{ all: number; longest: number; turns: number }> {
  const markdown = new StreamingMarkdown(document.createElement("div"), ALL_EXTRAS);
  let isDone = false;
  const begun = cpuMs();
  let [before, longest, turns] = [begun, 0, 0];
  markdown.append(text);
  const done = markdown
    .end()
    .then(() => markdown.finished)
    .then(() => {
      isDone = true;
    });
  while (!isDone) {
    const now = cpuMs();
    longest = Math.max(longest, now - before);
    before = now;
    turns += 1;
    await new Promise((resolve) => setTimeout(resolve));
  }
  await done;
  return { all: cpuMs() - begun, longest, turns };
}

describe("a long text that comes at once", () => {
  vi.spyOn(maths, "mathmlOf").mockReturnValue("<math><mi>x</mi></math>");

  it.each(KINDS)(
    "is drawn in turns, and a longer one takes no more than its part: %s",
    async (_, piece) => {
      for (const isDefinedFirst of piece === "[a] " ? [true, false] : [false]) {
        const short = await costOf(textOf(piece, CHARACTERS, isDefinedFirst));
        const long = await costOf(textOf(piece, 3 * CHARACTERS, isDefinedFirst));
        expect(long.turns).toBeGreaterThan(3);
        expect(long.longest).toBeLessThan(Math.max(400, long.all / 3));
        expect(long.all).toBeLessThan(5 * short.all + 500);
      }
    },
    120_000,
  );

  it("is shown as the same text is that comes little by little", async () => {
    const text = KINDS.map(([, piece]) => `${textOf(piece, 1_200, false)}\n\nAnd then:\n\n`).join("");
    const [whole, grown] = [document.createElement("div"), document.createElement("div")];
    const [atOnce, little] = [new StreamingMarkdown(whole), new StreamingMarkdown(grown)];
    atOnce.append(text);
    await atOnce.end();
    for (let start = 0; start < text.length; start += 700) {
      little.append(text.slice(start, start + 700));
      await new Promise((resolve) => setTimeout(resolve));
    }
    await little.end();
    expect(whole.innerHTML === grown.innerHTML).toBe(true);
  });

  it("has a bound of elements, and what follows is plain text", async () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    const text = "```js\n```\n".repeat(2_600);
    markdown.append(`${text}The **end**.`);
    await markdown.end();
    expect(element.querySelectorAll("*").length).toBeLessThan(12_000);
    expect(element.querySelectorAll(":scope > .plain").length).toBeGreaterThan(1);
    expect(element.lastElementChild?.textContent?.endsWith("```\nThe **end**.")).toBe(true);
  }, 60_000);

  it("is one block where it is one, however many slices it was made in", async () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    const rows = "| **a** | `b` [c](https://c.d) |\n".repeat(200);
    markdown.append(`| a | b |\n|---|---|\n${rows}\n- a\n${"- *b* **c**\n  - d\n".repeat(150)}`);
    await markdown.end();
    expect(element.querySelectorAll("table")).toHaveLength(1);
    expect(element.querySelectorAll("tbody tr")).toHaveLength(200);
    expect(element.querySelectorAll("tbody tr > td:nth-child(2) > a")).toHaveLength(200);
    expect([...element.children].filter(({ localName }) => localName === "ul")).toHaveLength(1);
    expect(element.querySelectorAll(":scope > ul > li")).toHaveLength(151);
    expect(element.querySelectorAll(":scope > ul > li > ul > li")).toHaveLength(150);
  });
});

describe("text that is replaced while it is drawn", () => {
  it("is gone", async () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append("```js\nlet a = 1;\n```\n".repeat(500));
    markdown.replace("# New");
    expect(element.innerHTML).toBe('<h3 data-depth="1" dir="auto">New</h3>');
    await markdown.end();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(element.innerHTML).toBe('<h3 data-depth="1" dir="auto">New</h3>');
  });
});
