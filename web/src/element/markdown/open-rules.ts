import type { Delimiter, MarkdownIt, StateInline } from "markdown-it";
import { contextOf } from "./inline-context.ts";

/** The source after a link's text, while its address is still arriving. */
const UNFINISHED_TARGET = /^(?:\(\s*(?:[^\s()]|\([^\s()]*\))*(?:\([^\s()]*)?(?:\s+(?:["'(][^\n]*)?)?|\[[^\]\n]*)?$/;
const UNFINISHED_FOOTNOTE = /^\[\^[^\s[\]^]*$/;
/** A longer link is shown as source. An image's address may contain the image. */
const LONGEST_LINK = 2_000;
/** If more marks than this are open, they are not emphasis. */
const MOST_OPEN = 4;
const WORD = /[0-9A-Za-z]/;

/**
 * Extends `parser` so that the end of an unfinished text is rendered as its probable final form: open emphasis and code
 * are closed there, and a link is its text. The finished text doesn't depend on this.
 */
export function knowOpenEnd(parser: MarkdownIt): void {
  parser.inline.ruler.before("backticks", "open_code", takeOpenCode);
  parser.inline.ruler.after("image", "open_link", takeOpenLink);
  parser.inline.ruler2.after("balance_pairs", "open_emphasis", closeEmphasis);
}

/** Parses all text after unclosed backticks as code. */
function takeOpenCode(state: StateInline, silent: boolean): boolean {
  if (state.src[state.pos] !== "`" || !contextOf(state).isOpenEnd) return false;
  const start = state.pos;
  let end = start;
  while (state.src[end] === "`" && end < state.posMax) end += 1;
  const closing = new RegExp(`(?<!\`)\`{${end - start}}(?!\`)`, "g");
  closing.lastIndex = end;
  if (closing.test(state.src)) return false;
  if (!silent) state.push("code_inline", "code", 0).content = state.src.slice(end, state.posMax).replaceAll("\n", " ");
  state.pos = state.posMax;
  return true;
}

/** Parses a bracket that may begin a link, and shows its text; shows nothing for an image or a footnote. */
function takeOpenLink(state: StateInline, silent: boolean): boolean {
  const { src, pos: start, posMax } = state;
  const isImage = src[start] === "!";
  const bracket = isImage ? start + 1 : start;
  if (silent || src[bracket] !== "[" || !contextOf(state).isOpenEnd) return false;
  const rest = src.slice(bracket, posMax);
  if (!isImage && rest.length > LONGEST_LINK) return false;
  const isHidden = isImage || UNFINISHED_FOOTNOTE.test(rest);
  if (!isHidden && rest !== "[" && WORD.test(src[start - 1] ?? "")) return false; // an index
  const isClosed = rest.includes("]");
  const end = isClosed ? state.md.helpers.parseLinkLabel(state, bracket, !isImage) : -1;
  if (isClosed && (end < 0 || !UNFINISHED_TARGET.test(src.slice(end + 1, posMax)))) return false;
  state.pos = isHidden ? posMax : bracket + 1;
  if (end < 0 || isHidden) return true;
  state.posMax = end;
  state.md.inline.tokenize(state);
  state.pos = state.posMax = posMax;
  return true;
}

/** Closes open marks at the end, the innermost first. */
function closeEmphasis(state: StateInline): void {
  if (!contextOf(state).isOpenEnd) return;
  const open = openMarks(state);
  if (open.length > MOST_OPEN) return;
  for (const mark of open.reverse()) {
    mark.end = state.delimiters.length;
    state.push("text", "", 0);
    state.delimiters.push({ marker: mark.marker, token: state.tokens.length - 1, end: -1, open: false, close: true });
  }
}

/** Opening marks that are not inside anything closed, and not within a word. */
function openMarks(state: StateInline): Delimiter[] {
  const open: Delimiter[] = [];
  let closedTo = -1;
  for (const [position, mark] of state.delimiters.entries()) {
    if (mark.end >= 0) closedTo = Math.max(closedTo, mark.end);
    else if (mark.open && position > closedTo && !(mark.close && isInWord(state, mark))) open.push(mark);
  }
  return open;
}

function isInWord({ tokens }: StateInline, { token, length = 0 }: Delimiter): boolean {
  if (length > 3) return true;
  const mark = tokens[token]?.content;
  let [first, last] = [token, token];
  while (tokens[first - 1]?.content === mark && token - first < length) first -= 1;
  while (tokens[last + 1]?.content === mark && last - token < length) last += 1;
  return WORD.test(tokens[first - 1]?.content.at(-1) ?? "") && WORD.test(tokens[last + 1]?.content.at(0) ?? "");
}
