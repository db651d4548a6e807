import type { Env, MarkdownIt, Token } from "markdown-it";
import { safeHtml } from "./safe-html.ts";
import type { Work } from "./work.ts";

/** The most tokens that are rendered in one step. */
const TOKENS_PER_STEP = 100;

/**
 * The nodes of `tokens`, made in steps. A step may end within an element. Then the next one begins with the tags of all
 * open elements, and its children are appended to theirs.
 */
export function* rendered(parser: MarkdownIt, tokens: Token[], env: Env): Work<DocumentFragment> {
  const whole = document.createDocumentFragment();
  const open: string[] = [];
  let [html, count, depth] = ["", 0, 0];
  for (const [list, position, token] of flattened(tokens)) {
    const piece = htmlOf(parser, list, position, env);
    html += piece;
    count += 1;
    if (token.nesting > 0) open.push(piece.trim()); // its line break was there already
    if (token.nesting < 0) open.pop();
    if (count < TOKENS_PER_STEP) continue;
    join(whole, safeHtml(html), depth);
    yield;
    [html, count] = [open.join(""), 0];
    depth = open.filter((tag) => tag !== "").length;
  }
  join(whole, safeHtml(html), depth);
  return whole;
}

/** All tokens, with the inner tokens of texts instead of the texts; each with its list, and its position there. */
function* flattened(tokens: Token[]): Generator<readonly [Token[], number, Token]> {
  for (const [position, token] of tokens.entries()) {
    if (token.type === "inline") yield* flattened(token.children ?? []);
    else yield [tokens, position, token];
  }
}

/** The HTML of one token, by the parser's renderer. */
function htmlOf({ renderer, options }: MarkdownIt, tokens: Token[], position: number, env: Env): string {
  const rule = renderer.rules[tokens[position]?.type ?? ""];
  if (rule === undefined) return renderer.renderToken(tokens, position, options);
  return rule(tokens, position, options, env, renderer);
}

/** Adds the nodes of a step to `target`. For `depth` levels, their first element continues the last one there. */
function join(target: ParentNode, added: ParentNode, depth: number): void {
  const [begun, continued] = [target.lastElementChild, added.firstElementChild];
  if (depth > 0 && begun !== null && continued !== null) {
    join(begun, continued, depth - 1);
    continued.remove();
  }
  while (added.firstChild !== null) target.appendChild(added.firstChild);
}
