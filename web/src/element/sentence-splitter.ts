/**
 * The end of a sentence or of a paragraph, with what proves it to be one: white space, or after `。！？`, which none follows, the
 * next character. A run of marks is looked at from its beginning only, or a long one would cost the square of its length.
 */
const SENTENCE_END = /(?<![.!?…])[.!?…]+["'”’)\]]*\s+|(?<![。！？])[。！？]+[”’」』）]*(?=[^。！？”’」』）])|\n+/g;
/** What has no end for so many characters is said without: all of what is left is looked through with every piece. */
const LONGEST = 1_000;

/** Cuts text that comes in pieces into whole sentences. */
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

  /** Returns what is left, as a sentence of its own, and begins anew. */
  flush(): string[] {
    const rest = this.#rest.trim();
    this.#rest = "";
    return rest === "" ? [] : [rest];
  }

  /** Takes the beginning of what is left: up to a blank, if there is one. */
  #cut(): string {
    const end = this.#rest.lastIndexOf(" ", LONGEST) + 1 || LONGEST;
    const beginning = this.#rest.slice(0, end);
    this.#rest = this.#rest.slice(end);
    return beginning.trim();
  }
}
