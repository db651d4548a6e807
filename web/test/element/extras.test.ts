// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import * as colours from "../../src/element/extras/code-colours.ts";
import { type Extras, NO_EXTRAS } from "../../src/element/extras/extras.ts";
import * as maths from "../../src/element/extras/maths.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

const MATHS: Extras = { ...NO_EXTRAS, maths: true };
const COLOURS: Extras = { ...NO_EXTRAS, codeColours: true };

/** What `source` is shown as that comes in pieces of so many characters, when all is done. */
async function shown(source: string, extras: Extras, size = 3): Promise<HTMLElement> {
  const element = document.createElement("div");
  const markdown = new StreamingMarkdown(element, extras);
  for (let start = 0; start < source.length; start += size) markdown.append(source.slice(start, start + size));
  markdown.end();
  await vi.dynamicImportSettled();
  await new Promise((resolve) => setTimeout(resolve));
  return element;
}

/** Its formulas, with a mark for those that have a line of their own, and its text besides. */
async function formulas(source: string, size?: number): Promise<[string[], string]> {
  const element = await shown(source, MATHS, size);
  const found = [...element.querySelectorAll("math")].map((formula) => {
    const text = formula.textContent ?? "";
    formula.remove();
    return formula.getAttribute("display") === "block" ? `[${text}]` : text;
  });
  return [found, element.textContent?.trim() ?? ""];
}

describe("maths", () => {
  it.each([1, 3, 1_000])("is drawn in each of its forms, in pieces of %i characters", async (size) => {
    const source = "So $x^2$ and \\(y\\).\n\n$$\nz\n$$\n\n\\[ a\n- b\n\\]\n\nAnd $$c$$ too.";
    expect(await formulas(source, size)).toEqual([["x2", "y", "[z]", "[a−b]", "[c]"], "So  and .And  too."]);
  });

  it.each([
    ["It costs $5 and then $10.", "It costs $5 and then $10."],
    ["A price of 5 $ or 6 $ a day", "A price of 5 $ or 6 $ a day"],
    ["`$x$` is code", "$x$ is code"],
    ["\\$x\\$ is escaped", "$x$ is escaped"],
  ])("is not seen in %j", async (source, text) => {
    expect(await formulas(source)).toEqual([[], text]);
  });

  it("that is no TeX stays as it came, and so does what is never closed", async () => {
    expect(await formulas("Well, $\\frac{$.")).toEqual([[], "Well, \\frac{."]);
    expect(await formulas("\\(a + b")).toEqual([[], "(a + b"]);
  });

  it.each([
    "$\\href{javascript:alert(1)}{x}$",
    "$\\htmlStyle{color:red}{x}$",
    "$\\includegraphics{https://tracker.example/pixel.png}$",
    "$\\fbox{x}$",
    "$\\text{<img src=x onerror=alert(1)>}$",
  ])("brings nothing but a formula: %s", async (source) => {
    const element = await shown(source, MATHS);
    expect(element.querySelector("img, a, script, [href], [style], [src]")).toBeNull();
  });

  it("is only loaded where it is switched on", async () => {
    const typeset = vi.spyOn(maths, "mathmlOf");
    expect((await shown("$x^2$", NO_EXTRAS)).textContent).toBe("$x^2$");
    expect(typeset).not.toHaveBeenCalled();
  });

  it("costs what is never closed no square of its length", async () => {
    const begun = performance.now();
    await shown("\\( ".repeat(20_000), MATHS, 60_000);
    expect(performance.now() - begun).toBeLessThan(10_000);
  });
});

describe("code colours", () => {
  const CODE = 'def f():\n    return "<b>" # a word\n';

  it("come when the block is whole, and leave its text as it is", async () => {
    const element = await shown(`\`\`\`python\n${CODE}\`\`\`\n\nDone.`, COLOURS);
    const code = element.querySelector("code");
    expect(code?.textContent).toBe(CODE.trimEnd());
    const words = [...(code?.querySelectorAll("span") ?? [])].map((it) => [it.className, it.textContent]);
    expect(words).toContainEqual(["hljs-keyword", "return"]);
    expect(words).toContainEqual(["hljs-string", '"<b>"']);
  });

  it("come to a block that is never closed, when the answer ends", async () => {
    const element = await shown(`\`\`\`python\n${CODE}`, COLOURS);
    expect(element.querySelector(".hljs-keyword")?.textContent).toBe("def");
  });

  it("don't come to a language that isn't known, nor to very long code", async () => {
    const coloured = vi.spyOn(colours, "colouredHtml");
    for (const [language, code] of [
      ["klingon", CODE],
      ["", CODE],
      ["python", `#${"x".repeat(50_000)}\n`],
    ]) {
      const element = await shown(`\`\`\`${language}\n${code}\`\`\`\n`, COLOURS, 10_000);
      expect(element.querySelector("span[class]")).toBeNull();
    }
    expect(coloured).toHaveBeenCalledTimes(1);
  });
});
