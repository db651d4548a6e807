import { alertTitle } from "./markdown/dress.ts";
import { markdownParser } from "./markdown/markdown-parser.ts";
import type { Strings } from "./strings.ts";

const FENCE = /^ {0,3}(?:`{3,}|~{3,})\s*(\S*)/;
/** Marks that make a line a heading, a quote, an item or a row, and lines that have only marks. */
const LINE_MARK = /^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+|\[[ xX]\]\s+|\[\^[^\s\]]+\]:\s*|\|\s*)+/;
/** The name of an alert, on its own line. */
const ALERT = /^\[!([A-Za-z]+)\]$/;
const ONLY_MARKS = /^[\s|:=*_-]*$/;

/** Converts the sentences of a Markdown text, one by one, to speech: without marks and code. */
export class Spoken {
  readonly #parser = markdownParser();
  #inCode = false;

  /** The text to announce for `sentence`; empty for nothing. */
  of(sentence: string, strings: Strings): string {
    const fence = FENCE.exec(sentence);
    if (fence !== null) {
      this.#inCode = !this.#inCode;
      if (!this.#inCode) return "";
      return `${strings.codeIn(fence[1] || strings.plainText)}.`;
    }
    if (this.#inCode || ONLY_MARKS.test(sentence)) return "";
    const text = sentence.replace(LINE_MARK, "");
    const title = alertTitle((ALERT.exec(text)?.[1] ?? "").toLowerCase(), strings);
    if (title !== "") return `${title}:`;
    const [inline] = this.#parser.parseInline(text, {});
    return (inline?.children ?? [])
      .map(({ type, content }) => (type.endsWith("break") ? " " : content))
      .join("")
      .replaceAll(" | ", ", ")
      .replace(/\s*\|$/, "")
      .trim();
  }
}
