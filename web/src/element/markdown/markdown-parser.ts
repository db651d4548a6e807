import MarkdownIt, { type MarkdownIt as Parser, type Token } from "markdown-it";
import { knowMaths } from "./maths-rules.ts";

/** A link leads to another site or to a mail, and never runs anything. Relative ones would act on this site. */
const SAFE_LINK = /^(?:https?:|mailto:)/i;
export const NEW_WINDOW: readonly (readonly [string, string])[] = [
  ["target", "_blank"],
  ["rel", "noopener noreferrer nofollow"],
];

const shared = new Map<boolean, Parser>();

export function isSafeLink(url: string): boolean {
  return SAFE_LINK.test(url.trim());
}

/** The parser of all answers. It keeps nothing of what it has parsed: a text's definitions are in its `env`. */
export function markdownParser({ maths }: { readonly maths: boolean } = { maths: false }): Parser {
  const known = shared.get(maths);
  if (known !== undefined) return known;
  const parser = newParser();
  if (maths) knowMaths(parser);
  shared.set(maths, parser);
  return parser;
}

/**
 * Parses Markdown with GitHub's tables and strikethrough. HTML in it is text like any other, a link that isn't safe stays
 * text, and an image is a link to it: to load one would tell its server who reads what.
 */
function newParser(): Parser {
  const parser = new MarkdownIt({ html: false, linkify: true, breaks: true });
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  parser.validateLink = isSafeLink;
  const { rules } = parser.renderer;
  rules.link_open = (tokens, position, options, _env, renderer) => {
    const token = at(tokens, position);
    for (const [name, value] of NEW_WINDOW) token.attrSet(name, value);
    return renderer.renderToken(tokens, position, options);
  };
  rules.image = (tokens, position) => {
    const { attrs, content } = at(tokens, position);
    const source = String(attrs?.find(([name]) => name === "src")?.[1] ?? "");
    const attributes = NEW_WINDOW.map(([name, value]) => ` ${name}="${value}"`).join("");
    const { escapeHtml } = parser.utils;
    return `<a href="${escapeHtml(source)}"${attributes}>${escapeHtml(content === "" ? source : content)}</a>`;
  };
  rules.fence = (tokens, position) => {
    const { info, content } = at(tokens, position);
    const { escapeHtml } = parser.utils;
    return `<pre><code data-language="${escapeHtml(languageOf(info))}">${escapeHtml(content)}</code></pre>\n`;
  };
  rules.th_open = rules.td_open = (tokens, position, options, _env, renderer) => {
    alignByAttribute(at(tokens, position));
    return renderer.renderToken(tokens, position, options);
  };
  return parser;
}

/** The language that a fence names: the first word of what stands behind it. */
export function languageOf(info: string): string {
  return info.trim().split(/\s/, 1)[0] ?? "";
}

/** A style attribute would be blocked by the page's policy. */
function alignByAttribute(token: Token): void {
  const side = /text-align:(left|center|right)/.exec(String(token.attrGet("style") ?? ""))?.[1];
  token.attrs = side === undefined ? null : [["align", side]];
}

function at(tokens: readonly Token[], position: number): Token {
  const token = tokens[position];
  if (token === undefined) throw new RangeError(`there is no token ${position}`);
  return token;
}
