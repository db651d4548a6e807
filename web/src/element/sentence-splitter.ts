/**
 * The end of a sentence or of a paragraph, with the character that proves it: white space, or after `。！？`, which are
 * not followed by a space, the next character. A run of marks is matched from its beginning only, which prevents
 * quadratic time.
 */
const SENTENCE_END = /(?<![.!?…])[.!?…]+["'”’)\]]*\s+|(?<![。！？])[。！？]+[”’」』）]*(?=[^。！？”’」』）])|\n+/g;
/** Longer text without an end is split anyway, since every piece searches all of the remaining text. */
const LONGEST = 1_000;

/** Splits text that arrives in pieces into whole sentences. */
export class SentenceSplitter {
  #rest = "";

  /** Adds a piece, and returns the sentences that it completes. */
  push(text: string): string[] {
    this.#rest += text;
    const sentences: string[] = [];
    let start = 0;
    for (const end of this.#rest.matchAll(SENTENCE_END)) {
      const next = end.index + end[0].length;
      sentences.push(this.#rest.slice(start, next).trim());
      start = next;
    }
    this.#rest = this.#rest.slice(start);
    while (this.#rest.length > LONGEST) sentences.push(this.#cut());
    return sentences.filter((sentence) => sentence !== "");
  }

  /** Returns the remaining text as a sentence, and resets. */
  flush(): string[] {
    const rest = this.#rest.trim();
    this.#rest = "";
    return rest === "" ? [] : [rest];
  }

  /** Removes the beginning of the remaining text: up to a space, if there is one. */
  #cut(): string {
    const end = this.#rest.lastIndexOf(" ", LONGEST) + 1 || LONGEST;
    const beginning = this.#rest.slice(0, end);
    this.#rest = this.#rest.slice(end);
    return beginning.trim();
  }
}
