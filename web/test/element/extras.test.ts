// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from "vitest";
import * as colours from "../../src/element/extras/code-colours.ts";
import { ALL_EXTRAS, type Extras, NO_EXTRAS } from "../../src/element/extras/extras.ts";
import * as maths from "../../src/element/extras/maths.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";
import { ChatScene } from "./chat-scene.ts";
import { ScriptedClient } from "./scripted-client.ts";

const MATHS: Extras = { ...NO_EXTRAS, maths: true };
const COLOURS: Extras = { ...NO_EXTRAS, codeColours: true };

/** What `source` is shown as that comes in pieces of so many characters, when all is done. */
async function shown(source: string, extras: Extras, size = 3): Promise<HTMLElement> {
  const element = document.createElement("div");
  const markdown = new StreamingMarkdown(element, extras);
  for (let start = 0; start < source.length; start += size) markdown.append(source.slice(start, start + size));
  await markdown.end();
  await markdown.finished;
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

describe("what can't be loaded", () => {
  afterEach(() => {
    vi.doUnmock("../../src/element/extras/maths.ts");
    vi.resetModules();
  });

  it("stays text, and the console says so once", async () => {
    vi.resetModules();
    vi.doMock("../../src/element/extras/maths.ts", () => {
      throw new TypeError("blocked by the page's policy");
    });
    const info = vi.spyOn(console, "info").mockImplementation(() => {});
    const { StreamingMarkdown: Fresh } = await import("../../src/element/markdown/streaming-markdown.ts");
    const element = document.createElement("div");
    const markdown = new Fresh(element, ALL_EXTRAS);
    markdown.append("$x$ and $y$\n\n$$z$$");
    await markdown.end();
    await markdown.finished;
    expect([...element.querySelectorAll("code")].map((it) => it.textContent)).toEqual(["x", "y", "z"]);
    expect(info).toHaveBeenCalledTimes(1);
    expect(info.mock.calls[0]?.[0]).toContain("formulas could not be loaded");
  });
});

describe("long answers", () => {
  it("are finished in slices, and the page has its turn between them", async () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element, MATHS);
    markdown.append("$x^2$ ".repeat(40));
    let isDone = false;
    await markdown.end();
    const done = markdown.finished.then(() => {
      isDone = true;
    });
    let turns = 0;
    while (!isDone) {
      await new Promise((resolve) => setTimeout(resolve));
      turns += 1;
    }
    await done;
    expect(element.querySelectorAll("math")).toHaveLength(40);
    expect(turns).toBeGreaterThan(2);
  });

  it("have as many formulas drawn as a page can bear", async () => {
    const typeset = vi.spyOn(maths, "mathmlOf").mockImplementation(() => {
      throw new TypeError("no TeX");
    });
    await shown("$x$ ".repeat(2_500), MATHS, 10_000);
    expect(typeset).toHaveBeenCalledTimes(500);
  });
});

describe("diagrams", () => {
  const SOURCE = "graph TD; A-->B\n";
  const FENCED = `\`\`\`mermaid\n${SOURCE}\`\`\`\n\nDone.`;
  const SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120.5 40" width="100%"><script>x()</script></svg>';

  /** What the page's `draw` makes of the sample, in a browser that shows images or not. */
  async function drawn(diagrams: Extras["diagrams"], isDecoded = true): Promise<HTMLElement> {
    const decode = isDecoded ? Promise.resolve() : Promise.reject(new Error("img-src"));
    decode.catch(() => {});
    Object.assign(HTMLImageElement.prototype, { decode: () => decode });
    return shown(FENCED, { ...NO_EXTRAS, diagrams });
  }

  it("are images that the page draws, once they are whole, with their source below", async () => {
    const draw = vi.fn(() => SVG);
    const element = await drawn(draw);
    expect(draw.mock.calls).toEqual([[SOURCE.trimEnd()]]);
    const image = element.querySelector("img");
    expect([image?.alt, image?.width]).toEqual(["Diagram", 121]);
    expect(decodeURIComponent(image?.src ?? "")).toMatch(/^data:image\/svg\+xml;charset=utf-8,<svg /);
    expect(element.querySelector("details code")?.textContent).toBe(SOURCE.trimEnd());
    // An image runs nothing; in the page there is nothing of it.
    expect(element.querySelector("svg, script")).toBeNull();
  });

  it("may be elements as well, and come later", async () => {
    const svg = new DOMParser().parseFromString(SVG, "image/svg+xml").documentElement as unknown as SVGElement;
    expect((await drawn(async () => svg)).querySelector("img")).not.toBeNull();
  });

  it.each<[string, Extras["diagrams"], boolean]>([
    ["has nothing that draws", undefined, true],
    ["throws", () => Promise.reject(new Error("no diagram")), true],
    ["draws nothing", () => "<p>no</p>", true],
    ["allows no images", () => SVG, false],
  ])("stay code where the page %s", async (_, diagrams, isDecoded) => {
    const element = await drawn(diagrams, isDecoded);
    expect(element.querySelector("img")).toBeNull();
    expect(element.querySelector(".code-block > pre > code")?.textContent).toBe(SOURCE.trimEnd());
  });
});

describe("the element", () => {
  /** What the answer shows of formulas, coloured words and images, by these attributes. */
  async function found(attributes: Record<string, string>): Promise<number[]> {
    const scene = new ChatScene();
    for (const [name, value] of Object.entries(attributes)) scene.chat.setAttribute(name, value);
    const client = new ScriptedClient();
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.say("$x$ ![a](https://a.example/b.png)\n\n```js\nlet a;\n```\n");
    client.last.complete();
    const answer = scene.find("answer", HTMLElement);
    const counts = () => ["math", ".hljs-keyword", "img"].map((kind) => answer.querySelectorAll(kind).length);
    await vi.waitFor(() => expect(answer.getAttribute("aria-busy")).toBe("false"));
    if (Object.values(attributes).includes("off")) return counts();
    await vi.waitFor(() => expect(counts().slice(0, 2)).toEqual([1, 1]));
    return counts();
  }

  it.each<[Record<string, string>, number[]]>([
    [{}, [1, 1, 0]],
    [{ maths: "", "code-colours": "", images: "a.example" }, [1, 1, 1]],
    [{ maths: "off", "code-colours": "off", images: "all" }, [0, 0, 1]],
  ])("does by its attributes %j", async (attributes, counts) => {
    expect(await found(attributes)).toEqual(counts);
  });
});
