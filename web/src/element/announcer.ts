import { SentenceSplitter } from "./sentence-splitter.ts";
import { Spoken } from "./spoken.ts";
import { ENGLISH, type Strings } from "./strings.ts";

/**
 * How long an announcement stays in the region, in milliseconds: it is heard, not read. Much may come at once, and what were
 * gone before the browser looks would never be heard.
 */
const KEPT_MS = 10_000;
/** Of more text that comes at once not all is made words in one turn of the page. */
const MOST_AT_ONCE = 10_000;

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
    for (const [place, some] of portions(sentences).entries()) {
      const say = (): void => {
        const spoken = some.map((sentence) => this.#spoken.of(sentence, this.strings));
        this.say(spoken.filter((words) => words !== "").join(" "));
      };
      if (place === 0) this.#inTurn(say);
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

/** `sentences` in portions of so many characters, or one sentence. */
function portions(sentences: readonly string[]): string[][] {
  const all: string[][] = [];
  let room = 0;
  for (const sentence of sentences) {
    if (room <= 0) {
      all.push([]);
      room = MOST_AT_ONCE;
    }
    all.at(-1)?.push(sentence);
    room -= sentence.length;
  }
  return all;
}
