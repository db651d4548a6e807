// A separate chunk, loaded when an answer has code in a language.
import highlighter from "highlight.js/lib/common";

/** `code` as HTML with a class for each token; undefined for an unknown language. */
export function colouredHtml(code: string, language: string): string | undefined {
  if (highlighter.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
