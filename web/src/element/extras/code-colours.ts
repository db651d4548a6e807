// A chunk of its own, loaded when an answer has code in a language.
import highlighter from "highlight.js/lib/common";

/** `code` as HTML with a class on each word of a kind; undefined for a language that isn't known. */
export function colouredHtml(code: string, language: string): string | undefined {
  if (highlighter.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
