/** The end of a sentence or of a paragraph, with the white space that proves it to be one. */
const SENTENCE_END = /[.!?…]+["'”’)\]]*\s+|\n+/g;

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
    return sentences.filter((sentence) => sentence !== "");
  }

  /** Returns what is left, as a sentence of its own, and begins anew. */
  flush(): string[] {
    const rest = this.#rest.trim();
    this.#rest = "";
    return rest === "" ? [] : [rest];
  }
}
