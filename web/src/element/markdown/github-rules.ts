import type { MarkdownIt, StateInline, Token } from "markdown-it";
import { contextOf } from "./inline-context.ts";

const TASK = /^\[(?<mark>[ xX])\](?:\s+|$)/;
const ALERT = /^\[!(?<kind>note|tip|important|warning|caution)\][ \t]*(?:\n|$)/i;
const LINE_BREAK = /<br[ \t]*\/?>/iy;
/** The level of a heading `#`; the levels above belong to the page. */
const TOP_LEVEL = 3;

/** Extends `parser` with GitHub's Markdown besides tables: tasks, alerts, line breaks in cells; and lower headings. */
export function knowGitHub(parser: MarkdownIt): void {
  parser.core.ruler.before("inline", "github", ({ tokens }) => {
    const quotes: Token[] = [];
    for (const [position, token] of tokens.entries()) {
      if (token.type === "list_item_open") markTask(token, tokens[position + 2]);
      if (token.type.startsWith("heading_")) lowerHeading(token);
      if (token.type === "blockquote_open") {
        markAlert(token, tokens.slice(position + 1, position + 4));
        quotes.push(token);
      }
      if (token.type === "blockquote_close") token.tag = quotes.pop()?.tag ?? token.tag;
    }
  });
  parser.inline.ruler.before("autolink", "cell_break", takeLineBreak);
}

/** Turns an item that begins with a checkbox into a task. `inline` is the text of its first paragraph. */
function markTask(item: Token, inline: Token | undefined): void {
  const mark = inline?.type === "inline" ? TASK.exec(inline.content) : null;
  if (inline === undefined || mark === null) return;
  inline.content = inline.content.slice(mark[0].length);
  item.attrSet("data-task", mark.groups?.mark === " " ? "open" : "done");
}

/** Turns a quotation that begins with the name of an alert into that alert. */
function markAlert(quote: Token, [paragraph, inline, end]: readonly Token[]): void {
  const found = inline?.type === "inline" && paragraph?.type === "paragraph_open" ? ALERT.exec(inline.content) : null;
  if (paragraph === undefined || inline === undefined || end === undefined || found === null) return;
  inline.content = inline.content.slice(found[0].length);
  paragraph.hidden = end.hidden = inline.content === "";
  quote.tag = "div";
  quote.attrSet("data-alert", (found.groups?.kind ?? "").toLowerCase());
}

/** Lowers a heading below those of the page. Its depth in the answer is kept for its style. */
function lowerHeading(token: Token): void {
  const depth = Number(token.tag.slice(1));
  token.tag = `h${Math.min(6, depth + TOP_LEVEL - 1)}`;
  if (token.nesting > 0) token.attrSet("data-depth", depth);
}

/** Parses a line break, the only HTML that is allowed, for table cells. */
function takeLineBreak(state: StateInline, silent: boolean): boolean {
  if (!contextOf(state).isInCell) return false;
  LINE_BREAK.lastIndex = state.pos;
  if (!LINE_BREAK.test(state.src)) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos = LINE_BREAK.lastIndex;
  return true;
}
