import { SentenceSplitter } from "./sentence-splitter.ts";
import { Spoken } from "./spoken.ts";
import { ENGLISH, type Strings } from "./strings.ts";

/**
 * How long an announcement stays in the region, in milliseconds: it is heard, not read. Much may come at once, and what were
 * gone before the browser looks would never be heard.
 */
const KEPT_MS = 10_000;

/** Speaks to screen readers, through a hidden live region, in whole sentences: a token at a time would be a stutter. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #splitter = new SentenceSplitter();
  strings: Strings = ENGLISH;
  #spoken = new Spoken();

  constructor(region: HTMLElement) {
    this.#region = region;
  }

  /** Adds text of the answer; what makes whole sentences is said, as one announcement. */
  addText(text: string): void {
    this.#saySentences(this.#splitter.push(text));
  }

  /** Says what is left of the text so far, which something else follows, and then `sentence`. */
  interrupt(sentence: string): void {
    this.#saySentences(this.#splitter.flush());
    this.say(sentence);
  }

  /** Says what is left of the answer, and then `ending`. */
  finish(ending: string): void {
    this.#saySentences(this.#splitter.flush());
    this.#spoken = new Spoken();
    this.say(ending);
  }

  /** Drops what was not said yet, because it no longer holds, and says `reason`. */
  restart(reason: string): void {
    this.#splitter.flush();
    this.#spoken = new Spoken();
    this.say(reason);
  }

  say(sentence: string): void {
    if (sentence === "") return;
    const paragraph = document.createElement("p");
    paragraph.textContent = sentence;
    this.#region.append(paragraph);
    setTimeout(() => paragraph.remove(), KEPT_MS);
  }

  #saySentences(sentences: readonly string[]): void {
    const spoken = sentences.map((sentence) => this.#spoken.of(sentence, this.strings));
    this.say(spoken.filter((words) => words !== "").join(" "));
  }
}
