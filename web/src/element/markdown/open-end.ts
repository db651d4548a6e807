const PREFIX = /^[ \t>]*/;
const ROW = /^[ \t>]*\|/;
const ROW_WITH_TEXT = /^[ \t>]*\|[ \t]+[^\s|]/;
const DELIMITERS = /^[ \t>|:-]*$/;
const DELIMITER = /^\s*:?-+:?\s*$/;
const UNESCAPED_PIPE = /(?<!\\)\|/;
/** Lines that open or close code within another block, and the beginning of a closing line. */
const FENCE = /^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:`{3}|~{3})/gm;
const CLOSING = /^[ \t>]*(?:`+|~+)$/;

/** A line that is still ambiguous: only marks of a block, a fence, the name of an alert, a footnote or a link. */
const UNDECIDED = new RegExp(
  [
    "(?:[-*+=_~`|:#]+|\\d{1,9}[.)])?",
    "`{3,}[^`]*|~{3,}.*",
    "(?<=>[ \\t]?)\\[(?:![A-Za-z]*\\]?)?",
    "\\[\\^[^\\s\\]]*\\]?|\\[(?!\\^)[^\\]]+\\]:",
  ]
    .map((form) => `^[ \\t>]*(?:${form})$`)
    .join("|"),
);
/** The same for a number, unless it begins the whole text. */
const UNDECIDED_NUMBER = /^[ \t>]*\d{1,2}$/;
/** Replacements for the end of a line while it is ambiguous, applied in order. */
const UNDECIDED_ENDS: readonly (readonly [RegExp, string])[] = [
  [/^(?<item>[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+)\[[ xX]?\]?$/, "$<item>"],
  [/<(?:br?|br\s*\/?|h|ht|htt|https?:?\/{0,2})?$/i, ""],
  [/<(?<url>https?:\/\/[^\s<>]+)$/i, "$<url>"],
  [/(?<!\S)!$/, ""],
  [/(?<![*_~`\\])[*_~`\\]+$/, ""],
];

/**
 * `source` without the ambiguous marks at its end, while more may arrive: a mark that may vanish is not shown. A table
 * is rendered from its first cell.
 */
export function decided(source: string): string {
  const { before, line } = lastLineOf(source);
  if (isInCode(before)) return CLOSING.test(line) ? before : source;
  const { before: beforeThat, line: previous } = lastLineOf(before.slice(0, -1));
  if (isHeader(beforeThat, previous) && DELIMITERS.test(line)) return before + delimiterRow(previous, line);
  const marks = line.trimEnd();
  if (UNDECIDED.test(marks) || (before !== "" && UNDECIDED_NUMBER.test(marks))) return before;
  const shown = UNDECIDED_ENDS.reduce((text, [form, replacement]) => text.replace(form, replacement), line);
  const isFirstRow = ROW_WITH_TEXT.test(shown) && !ROW.test(previous) && !isDelimiterRow(previous);
  return before + (isFirstRow ? `${shown}\n${delimiterRow(shown, "")}` : shown);
}

/** Whether `before` ends in an open code block. Its lines are shown unchanged. */
function isInCode(before: string): boolean {
  return (before.match(FENCE)?.length ?? 0) % 2 === 1;
}

function lastLineOf(source: string): { before: string; line: string } {
  const start = source.lastIndexOf("\n") + 1;
  return { before: source.slice(0, start), line: source.slice(start) };
}

/** Whether `line` is the first line of a table, if a delimiter row follows. */
function isHeader(before: string, line: string): boolean {
  return ROW.test(line) && !ROW.test(lastLineOf(before.slice(0, -1)).line);
}

function isDelimiterRow(line: string): boolean {
  return line.includes("-") && DELIMITERS.test(line);
}

/** The delimiter row that makes a table of `header`; `known` is the part of it that has arrived. */
function delimiterRow(header: string, known: string): string {
  const cells = cellsOf(known);
  const row = cellsOf(header).map((_, column) => {
    const cell = cells[column] ?? "";
    return column < cells.length - 1 && DELIMITER.test(cell) ? cell : "---";
  });
  return `${PREFIX.exec(header)?.[0] ?? ""}|${row.join("|")}|`;
}

function cellsOf(row: string): string[] {
  const cells = row.replace(PREFIX, "").trim().replace(/^\|/, "");
  return cells.replace(/(?<!\\)\|$/, "").split(UNESCAPED_PIPE);
}
