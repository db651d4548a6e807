import MarkdownIt, { type MarkdownIt as Parser, type Token } from "markdown-it";
import { knowCjkEmphasis } from "./cjk-emphasis.ts";
import { knowDirections } from "./directions.ts";
import { knowFootnotes } from "./footnote-rules.ts";
import { knowGitHub } from "./github-rules.ts";
import { knowContext } from "./inline-context.ts";
import { knowMaths } from "./maths-rules.ts";
import { knowOpenEnd } from "./open-rules.ts";
import { isSafeImage, isSafeLink, NEW_WINDOW } from "./safe-urls.ts";

const shared = new Map<boolean, Parser>();

/** The shared parser of all answers. It is stateless: a text's definitions are in its `env`. */
export function markdownParser({ maths }: { readonly maths: boolean } = { maths: false }): Parser {
  const known = shared.get(maths);
  if (known !== undefined) return known;
  const parser = newParser();
  if (maths) knowMaths(parser);
  shared.set(maths, parser);
  return parser;
}

/**
 * Parses Markdown with GitHub's additions. HTML in it is text, an unsafe link stays text, and an image is only a
 * placeholder: the parser doesn't decide whether it is loaded.
 */
function newParser(): Parser {
  const parser = new MarkdownIt({ html: false, linkify: true, breaks: true });
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  parser.validateLink = (url) => isSafeLink(url) || isSafeImage(url);
  for (const know of [knowContext, knowGitHub, knowFootnotes, knowDirections, knowCjkEmphasis, knowOpenEnd])
    know(parser);
  const { rules } = parser.renderer;
  const { escapeHtml } = parser.utils;
  rules.link_open = (tokens, position, options, _env, renderer) => {
    const token = at(tokens, position);
    if (!isSafeLink(String(token.attrGet("href")))) return ""; // the address of an image
    for (const [name, value] of NEW_WINDOW) token.attrSet(name, value);
    return renderer.renderToken(tokens, position, options);
  };
  rules.image = (tokens, position, options, env, renderer) => {
    const token = at(tokens, position);
    const name = renderer.renderInlineAsText(token.children ?? [], options, env);
    return `<span data-image="${escapeHtml(String(token.attrGet("src")))}">${escapeHtml(name)}</span>`;
  };
  rules.fence = (tokens, position) => {
    const { info, content } = at(tokens, position);
    return `<pre><code data-language="${escapeHtml(languageOf(info))}">${escapeHtml(content)}</code></pre>\n`;
  };
  rules.th_open = rules.td_open = (tokens, position, options, _env, renderer) => {
    alignByAttribute(at(tokens, position));
    return renderer.renderToken(tokens, position, options);
  };
  return parser;
}

/** The language of a fence: the first word after it. */
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
