import { SentenceSplitter } from "./sentence-splitter.ts";
import { Spoken } from "./spoken.ts";
import { ENGLISH, type Strings } from "./strings.ts";

/**
 * How long an announcement stays in the region, in milliseconds: it is heard, not read. Much may come at once, and what were
 * gone before the browser looks would never be heard.
 */
const KEPT_MS = 10_000;
/** Of much text that comes at once so many sentences are made words at a time, and the page has its turn between them. */
const MOST_AT_ONCE = 20;

/** Speaks to screen readers, through a hidden live region, in whole sentences: a token at a time would be a stutter. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #splitter = new SentenceSplitter();
  strings: Strings = ENGLISH;
  #spoken = new Spoken();
  #later: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

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
    this.#inTurn(() => this.say(sentence));
  }

  /** Says what is left of the answer, and then `ending`. */
  finish(ending: string): void {
    this.#saySentences(this.#splitter.flush());
    this.#inTurn(() => {
      this.#spoken = new Spoken();
      this.say(ending);
    });
  }

  /** Drops what was not said yet, because it no longer holds, and says `reason`. */
  restart(reason: string): void {
    this.#splitter.flush();
    this.#later = [];
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
    for (let start = 0; start < sentences.length; start += MOST_AT_ONCE) {
      const some = sentences.slice(start, start + MOST_AT_ONCE);
      const say = (): void => {
        const spoken = some.map((sentence) => this.#spoken.of(sentence, this.strings));
        this.say(spoken.filter((words) => words !== "").join(" "));
      };
      if (start === 0) this.#inTurn(say);
      else this.#later.push(say);
    }
    this.#goOn();
  }

  /** Does this at once, or behind what is still to be said. */
  #inTurn(step: () => void): void {
    if (this.#later.length > 0) this.#later.push(step);
    else step();
  }

  #goOn(): void {
    if (this.#later.length === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#later.shift()?.();
      this.#goOn();
    });
  }
}
