import type { MarkdownIt, StateBlock, StateInline } from "markdown-it";

const REFERENCE = /\[\^(?<label>[^\s[\]^]{1,50})\]/y;
const DEFINITION = /\[\^(?<label>[^\s[\]^]{1,50})\]:[ \t]*/y;

/**
 * Extends `parser` with footnotes: `[^1]`, and lines that begin with `[^1]:`. Each is shown where it is defined and by
 * its own label, so that nothing moves or is renumbered while the text grows. References without a definition are
 * handled at the end.
 */
export function knowFootnotes(parser: MarkdownIt): void {
  const { escapeHtml } = parser.utils;
  parser.inline.ruler.before("link", "footnote", takeReference);
  parser.block.ruler.before("reference", "footnote", takeDefinition, { alt: ["paragraph", "reference", "blockquote"] });
  parser.renderer.rules.footnote = (tokens, position) => {
    const label = escapeHtml(tokens[position]?.info ?? "");
    return `<sup data-footnote="${label}">${label}</sup>`;
  };
}

function takeReference(state: StateInline, silent: boolean): boolean {
  if (silent || state.linkLevel > 0) return false;
  REFERENCE.lastIndex = state.pos;
  const label = REFERENCE.exec(state.src)?.groups?.label;
  if (label === undefined || REFERENCE.lastIndex > state.posMax) return false;
  state.push("footnote", "sup", 0).info = label;
  state.pos = REFERENCE.lastIndex;
  return true;
}

/** Parses a definition with all indented lines after it, as in a list item. */
function takeDefinition(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  const { bMarks, tShift, sCount, blkIndent, parentType } = state;
  const [mark = 0, shift = 0, indent = 0] = [bMarks[startLine], tShift[startLine], sCount[startLine]];
  if (indent - blkIndent >= 4) return false;
  DEFINITION.lastIndex = mark + shift;
  const label = DEFINITION.exec(state.src)?.groups?.label;
  if (label === undefined) return false;
  if (silent) return true;
  const opening = state.push("footnote_open", "div", 1);
  opening.attrs = [["data-definition", label]];
  const lines: [number, number] = [startLine, startLine];
  opening.map = lines;
  bMarks[startLine] = DEFINITION.lastIndex;
  tShift[startLine] = 0;
  state.blkIndent = blkIndent + 4;
  sCount[startLine] = state.blkIndent;
  state.parentType = "footnote";
  state.line = startLine;
  state.md.block.tokenize(state, startLine, endLine);
  [bMarks[startLine], tShift[startLine], sCount[startLine]] = [mark, shift, indent];
  [state.blkIndent, state.parentType] = [blkIndent, parentType];
  lines[1] = state.line;
  state.push("footnote_close", "div", -1);
  return true;
}
