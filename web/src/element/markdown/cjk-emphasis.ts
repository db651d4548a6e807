import type { MarkdownIt, StateInline } from "markdown-it";

/** A CJK character: East Asian Width W, F or H, or script Hangul, and no emoji. */
const CJK =
  "(?!\\p{Emoji_Presentation})[\\u1100-\\u11ff\\u20a9\\u2329\\u232a\\u2e80-\\u303e\\u3041-\\ua4cf\\ua960-\\ua97f\\uac00-\\ud7ff" +
  "\\uf900-\\ufaff\\ufe10-\\ufe19\\ufe30-\\ufe6b\\uff01-\\uffee\\u{16fe0}-\\u{18dff}\\u{1aff0}-\\u{1b2ff}\\u{1f200}-\\u{1f265}" +
  "\\u{20000}-\\u{3fffd}]";
const BEGINS_WITH_CJK = new RegExp(`^${CJK}`, "u");
/** Also with a variation selector after it, or a variant of an ideograph or a quotation mark. */
const ENDS_WITH_CJK = new RegExp(
  `(?:${CJK}[\\ufe00-\\ufe0e]?|[\\u{e0100}-\\u{e01ef}]|[\\u2018\\u2019\\u201c\\u201d]\\ufe01)$`,
  "u",
);
const VARIATION = /[\ufe00-\ufe0e]$/;
/** The longest match of these patterns, in UTF-16 units. */
const LONGEST = 4;

/**
 * Extends `parser` with the "CommonMark CJK-friendly Amendments": beside a CJK character, emphasis needs no space.
 * Otherwise `これは**「重要」**です` has no strong text, since these languages write no space before a bracket.
 */
export function knowCjkEmphasis(parser: MarkdownIt): void {
  const { isMdAsciiPunct, isPunctCharCode, isWhiteSpace } = parser.utils;
  const isPunctuation = (code: number): boolean => isMdAsciiPunct(code) || isPunctCharCode(code);
  parser.inline.State = class extends parser.inline.State {
    override scanDelims(start: number, canSplitWord: boolean): ReturnType<StateInline["scanDelims"]> {
      const plain = super.scanDelims(start, canSplitWord);
      const end = start + plain.length;
      const before = this.src.slice(Math.max(0, start - LONGEST), start);
      const after = this.src.slice(end, Math.min(this.posMax, end + LONGEST));
      if (!ENDS_WITH_CJK.test(before) && !BEGINS_WITH_CJK.test(after)) return plain;
      const left = [...before.replace(VARIATION, "")].at(-1)?.codePointAt(0);
      const right = after.codePointAt(0);
      if (left === undefined || right === undefined || isWhiteSpace(left) || isWhiteSpace(right)) return plain;
      if (canSplitWord) return { ...plain, can_open: true, can_close: true };
      return { ...plain, can_open: isPunctuation(left), can_close: isPunctuation(right) };
    }
  };
}
