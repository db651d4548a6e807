// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { NO_EXTRAS } from "../../src/element/extras/extras.ts";
import { type ImagePolicy, imagePolicyOf } from "../../src/element/markdown/images.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";

/** What `source` is shown as, by a page with this policy. */
function shown(source: string, images: ImagePolicy = "ask", size = 1): HTMLElement {
  const element = document.createElement("div");
  document.body.replaceChildren(element);
  const markdown = new StreamingMarkdown(element, { ...NO_EXTRAS, images });
  for (let start = 0; start < source.length; start += size) markdown.append(source.slice(start, start + size));
  void markdown.end();
  return element;
}

describe("tasks", () => {
  it("are boxes that can't be changed, with names, in lists that keep their structure", () => {
    const element = shown("- [ ] one\n- [x] **two**\n  - [X] three\n- four\n\n1. [ ] loose\n\n2. [x](https://a.b)");
    const boxes = [...element.querySelectorAll("input")];
    expect(boxes.map(({ type, disabled, checked, ariaLabel }) => [type, disabled, checked, ariaLabel])).toEqual([
      ["checkbox", true, false, "Incomplete task"],
      ["checkbox", true, true, "Completed task"],
      ["checkbox", true, true, "Completed task"],
      ["checkbox", true, false, "Incomplete task"],
    ]);
    expect(element.querySelector("ul > li > ul > li")?.textContent).toBe(" three");
    expect(element.querySelector("ol > li > p > input")).not.toBeNull();
    expect(element.textContent).not.toMatch(/\[[ xX]\]/);
  });
});

describe("alerts", () => {
  it.each(["Note", "Tip", "Important", "Warning", "Caution"])("of the kind %s have its name", (name) => {
    const element = shown(`> [!${name.toUpperCase()}]\n> One **two**.\n>\n> - three`);
    const alert = element.querySelector("[role=note]");
    expect(alert?.ariaLabel).toBe(name);
    expect([...(alert?.children ?? [])].map((it) => it.textContent?.trim())).toEqual([name, "One two.", "three"]);
    expect(element.querySelector("blockquote")).toBeNull();
  });

  it.each(["> [!DANGER]\n> x", "> [!NOTE] on the same line", "> x\n> [!NOTE]"])("are no others: %j", (source) => {
    expect(shown(source).querySelector("blockquote")).not.toBeNull();
    expect(shown(source).querySelector("[role=note]")).toBeNull();
  });
});

describe("tables", () => {
  it("have line breaks in their cells, and no other HTML", () => {
    const cell = shown("| a |\n|---|\n| one<br>two<br/>`<br>`<b> |").querySelector("td");
    expect(cell?.querySelectorAll("br")).toHaveLength(2);
    expect(cell?.textContent?.replaceAll("\n", "")).toBe("onetwo<br><b>");
    expect(shown("no<br>cell").querySelector("br")).toBeNull();
  });
});

describe("footnotes", () => {
  const TEXT =
    "One[^1], two[^note], none[^other].\n\n[^1]: The **first**.\n[^note]: The second,\n\n    longer.\n\nThe end.";

  it("are shown where they stand, by their labels, and what is never defined as it was written", () => {
    const element = shown(TEXT);
    const references = [...element.querySelectorAll("sup button")];
    expect(references.map((it) => [it.textContent, it.ariaLabel])).toEqual([
      ["1", "Footnote 1"],
      ["note", "Footnote note"],
    ]);
    expect(element.querySelector("p")?.textContent).toBe("One1, twonote, none[^other].");
    const [first, second] = element.querySelectorAll(".footnote");
    expect(first?.querySelector(".footnote-text")?.innerHTML.trim()).toBe(
      '<p dir="auto">The <strong>first</strong>.</p>',
    );
    expect(second?.querySelectorAll("p")).toHaveLength(2);
    expect(element.lastElementChild?.textContent).toBe("The end.");
  });

  it("are gone to and come back from by keyboard, each in its own answer", () => {
    const [one, other] = [shown("a[^1]\n\n[^1]: A."), document.createElement("div")];
    document.body.append(other);
    const markdown = new StreamingMarkdown(other);
    markdown.append("b[^1]\n\n[^1]: B.");
    for (const answer of [other, one]) {
      answer.querySelector<HTMLElement>("sup button")?.click();
      expect(document.activeElement).toBe(answer.querySelector(".footnote"));
      answer.querySelector<HTMLElement>(".footnote > button")?.click();
      expect(document.activeElement).toBe(answer.querySelector("sup button"));
    }
    expect(document.querySelector("[id]")).toBeNull();
  });

  it("are not taken for a link's definition, nor in a link", () => {
    expect(shown("[^1]: https://a.b\n\n[^1]").querySelector("p a")?.getAttribute("href")).toBe("https://a.b");
    expect(shown("[a[^1]](https://a.b)\n\n[^1]: x").querySelector("a")?.outerHTML).toContain(">a[^1]</a>");
  });
});

describe("headings", () => {
  it("are below those of the page, and look as deep as they are", () => {
    const headings = [...shown("# a\n\n## b\n\n##### c\n\nd\n===").querySelectorAll<HTMLElement>("[data-depth]")];
    expect(headings.map((it) => [it.localName, it.dataset.depth])).toEqual([
      ["h3", "1"],
      ["h4", "2"],
      ["h6", "5"],
      ["h3", "1"],
    ]);
  });
});

describe("emphasis beside CJK characters", () => {
  it.each([
    ["これは**「重要」**です", "これは<strong>「重要」</strong>です"],
    ["*「a」*です", "<em>「a」</em>です"],
    ["~~これは。~~はい", "<s>これは。</s>はい"],
    ["**이 용어(This term)**를 강조", "<strong>이 용어(This term)</strong>를 강조"],
    ["我可以强调**这个`code`**吗", '我可以强调<strong>这个<code dir="ltr">code</code></strong>吗'],
    ["𩸽**(x)**𩸽", "𩸽<strong>(x)</strong>𩸽"],
    ["禰󠄀**(x)**禰󠄀", "禰󠄀<strong>(x)</strong>禰󠄀"],
    ["これは_「重要」_です", "これは_「重要」_です"],
    ["これは **「重要」** です", "これは <strong>「重要」</strong> です"],
    ['a**"b"**c', 'a**"b"**c'],
    ["a **b** c_d_e", "a <strong>b</strong> c_d_e"],
  ])("%s", (source, html) => {
    expect(shown(source).querySelector("p")?.innerHTML).toBe(html);
  });
});

describe("directions", () => {
  it("are those of each block's text; code goes from left to right", () => {
    const element = shown(
      "שלום `code`\n\n- אחת\n- two\n\n1. `x` one\n\n   אחת\n\n> ציטוט\n\n> [!NOTE]\n> one\n\n| א |\n|---|\n\n```\nאב\n```\n\n# a\n\n12\n",
    );
    const all = [
      ...element.querySelectorAll<HTMLElement>("p:not(.alert-title), ul, ol, li, blockquote, [role=note], table"),
    ];
    expect(all.map(({ localName, dir }) => `${localName} ${dir}`)).toEqual([
      ...["p auto", "ul rtl", "li auto", "li auto", "ol ltr", "li ltr", "p auto", "p auto"],
      ...["blockquote rtl", "p auto", "div ltr", "p auto", "table auto", "p auto"],
    ]);
    expect([...element.querySelectorAll<HTMLElement>(".code-block, :not(pre) > code")].map(({ dir }) => dir)).toEqual([
      "ltr",
      "ltr",
      "ltr",
    ]);
  });
});

describe("images", () => {
  const IMAGE = "![A *cat*](https://images.example/cat.png?secret=1)";

  it("are loaded when the reader asks for it, and stay so while the text grows", () => {
    const element = document.createElement("div");
    const markdown = new StreamingMarkdown(element);
    markdown.append(`See ${IMAGE} and`);
    expect(element.querySelector("img")).toBeNull();
    expect(element.querySelector("a")?.textContent).toBe("A cat");
    const button = element.querySelector<HTMLElement>("button");
    expect(button?.textContent).toBe("Load image from images.example");
    button?.click();
    const image = element.querySelector("img");
    expect([image?.src, image?.alt, image?.getAttribute("referrerpolicy")]).toEqual([
      "https://images.example/cat.png?secret=1",
      "A cat",
      "no-referrer",
    ]);
    expect(image?.getAttributeNames().at(-1), "it says how before it says what").toBe("src");
    markdown.append(" more.\n\nNext");
    expect(element.querySelector("img")).toBe(image);
    expect(element.querySelector("button")).toBeNull();
  });

  it("that the page's policy blocks, or that are not there, are links again", () => {
    const element = shown(IMAGE, "all");
    element.querySelector("img")?.dispatchEvent(new Event("error"));
    expect(element.querySelector("img, button")).toBeNull();
    expect(element.querySelector("a")?.href).toContain("cat.png");
  });

  it.each<[string | null, boolean, boolean]>([
    [null, false, true],
    ["ask", false, true],
    ["", false, true],
    ["none", false, false],
    ["all", true, false],
    ["images.example, cdn.example", true, false],
    ["example", false, true],
    ["other.example all", false, true],
  ])("with the attribute %j are loaded by themselves: %s, or offered: %s", (attribute, isLoaded, isOffered) => {
    const element = shown(IMAGE, imagePolicyOf(attribute));
    expect(element.querySelector("img") !== null).toBe(isLoaded);
    expect(element.querySelector("button") !== null).toBe(isOffered);
  });

  it("that are their own address are loaded while they are small", () => {
    const data = (length: number) => `![x](data:image/png;base64,${"A".repeat(length)})`;
    expect(shown(data(100)).querySelector("img")?.alt).toBe("x");
    expect(shown(data(100), "none").querySelector("img")).toBeNull();
    expect(shown(data(16_000), "ask", 2_000).querySelector("img")).toBeNull();
  });

  it("in a link are the text of the link, unless they may be loaded", () => {
    const source = "[![cat](https://images.example/a.png)](https://a.b/)";
    expect(shown(source).querySelector("a")?.textContent).toBe("cat");
    expect(shown(source).querySelector("button")).toBeNull();
    expect(shown(source, "all").querySelector("a > img")).not.toBeNull();
  });

  it("are asked for once each, not by their host", () => {
    const element = shown("![a](https://images.example/a.png) ![b](https://images.example/b.png)");
    element.querySelector<HTMLElement>("button")?.click();
    expect([...element.querySelectorAll("img")].map(({ alt }) => alt)).toEqual(["a"]);
  });
});
