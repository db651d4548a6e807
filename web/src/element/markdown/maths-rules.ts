import type { MarkdownIt, StateBlock, StateInline, Token } from "markdown-it";

/**
 * The delimiters of formulas, and whether each has its own line. A dollar after a space does not close a formula, nor
 * does one before a digit: those are sums of money. The limit on the length prevents quadratic time for what is never
 * closed.
 */
const INLINE: readonly (readonly [RegExp, "inline" | "block"])[] = [
  [/\\\((?<tex>.{1,1000}?)\\\)/suy, "inline"],
  [/\\\[(?<tex>.{1,1000}?)\\\]/suy, "block"],
  [/\$\$(?<tex>[^$]{1,1000})\$\$/uy, "block"],
  [/\$(?!\s)(?<tex>[^$\n]{1,1000})(?<![\s\\])\$(?!\d)/uy, "inline"],
];
const OPENING = /^(?:\$\$(?!\$)|\\\[)/;

/** Extends `parser` with formulas: they become code, with an attribute that marks them. */
export function knowMaths(parser: MarkdownIt): void {
  parser.inline.ruler.before("escape", "maths", takeInline);
  parser.block.ruler.before("fence", "maths", takeBlock, { alt: ["paragraph", "blockquote", "list"] });
  const { escapeHtml } = parser.utils;
  const code = ({ info, content }: Token): string =>
    `<code dir="ltr" data-maths="${info}">${escapeHtml(content.trim())}</code>`;
  const { rules } = parser.renderer;
  rules.maths = (tokens, position) =>
    tokens
      .slice(position, position + 1)
      .map(code)
      .join("");
  rules.maths_block = (tokens, position) =>
    `<p>${tokens
      .slice(position, position + 1)
      .map(code)
      .join("")}</p>\n`;
}

function takeInline(state: StateInline, silent: boolean): boolean {
  for (const [form, info] of INLINE) {
    form.lastIndex = state.pos;
    const found = form.exec(state.src);
    if (found === null) continue;
    if (!silent) Object.assign(state.push("maths", "code", 0), { info, content: found.groups?.tex ?? "" });
    state.pos = form.lastIndex;
    return true;
  }
  return false;
}

/** Parses lines from an opening mark up to the closing one; without a closing one, all remaining lines. */
function takeBlock(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  const opening = OPENING.exec(lineOf(state, startLine))?.[0];
  if (opening === undefined) return false;
  const closing = opening === "$$" ? "$$" : "\\]";
  const lines: string[] = [];
  let line = startLine;
  for (let isClosed = false; line < endLine && !isClosed; line += 1) {
    const text = lineOf(state, line).slice(line === startLine ? opening.length : 0);
    const end = text.indexOf(closing);
    isClosed = end >= 0;
    // With text after it, this is a paragraph with a formula in it.
    if (isClosed && text.slice(end + closing.length).trim() !== "") return false;
    lines.push(isClosed ? text.slice(0, end) : text);
  }
  if (silent) return true;
  const content = lines.join("\n");
  Object.assign(state.push("maths_block", "code", 0), { info: "block", content, block: true, map: [startLine, line] });
  state.line = line;
  return true;
}

function lineOf({ src, bMarks, tShift, eMarks }: StateBlock, line: number): string {
  return src.slice((bMarks[line] ?? 0) + (tShift[line] ?? 0), eMarks[line]);
}
