import { SentenceSplitter } from "./sentence-splitter.ts";
import { Spoken } from "./spoken.ts";
import { ENGLISH, type Strings } from "./strings.ts";

/**
 * How long an announcement stays in the region, in milliseconds. Many may come at once, and one that is removed before
 * the browser reads the region would never be spoken.
 */
const KEPT_MS = 10_000;
/** Sentences are converted in portions, each in its own task. A portion ends once it has this many characters. */
const PORTION_CHARACTERS = 10_000;

/** Announces whole sentences to screen readers, through a hidden live region: single tokens would stutter. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #splitter = new SentenceSplitter();
  strings: Strings = ENGLISH;
  #spoken = new Spoken();
  #steps: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(region: HTMLElement) {
    this.#region = region;
  }

  /** Adds text of the answer, and announces the sentences that it completes together. */
  addText(text: string): void {
    this.#saySentences(this.#splitter.push(text));
  }

  /** Announces the rest of the text so far, and then `sentence`. */
  interrupt(sentence: string): void {
    this.#saySentences(this.#splitter.flush());
    this.#inTurn(() => this.say(sentence));
  }

  /** Announces the rest of the answer, and then `ending`. */
  finish(ending: string): void {
    this.#saySentences(this.#splitter.flush());
    this.#inTurn(() => {
      this.#spoken = new Spoken();
      this.say(ending);
    });
  }

  /** Drops pending sentences, which are no longer valid, and announces `reason`. */
  restart(reason: string): void {
    this.#splitter.flush();
    this.#steps = [];
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
    for (const [position, portion] of portions(sentences).entries()) {
      const say = (): void => {
        const spoken = portion.map((sentence) => this.#spoken.of(sentence, this.strings));
        this.say(spoken.filter((words) => words !== "").join(" "));
      };
      if (position === 0) this.#inTurn(say);
      else this.#steps.push(say);
    }
    this.#scheduleStep();
  }

  /** Runs a step at once, or after the pending steps. */
  #inTurn(step: () => void): void {
    if (this.#steps.length > 0) this.#steps.push(step);
    else step();
  }

  #scheduleStep(): void {
    if (this.#steps.length === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#steps.shift()?.();
      this.#scheduleStep();
    });
  }
}

/** `sentences` in portions of {@link PORTION_CHARACTERS}, each ended by a whole sentence. */
function portions(sentences: readonly string[]): string[][] {
  const found: string[][] = [];
  let charactersLeft = 0;
  for (const sentence of sentences) {
    if (charactersLeft <= 0) {
      found.push([]);
      charactersLeft = PORTION_CHARACTERS;
    }
    found.at(-1)?.push(sentence);
    charactersLeft -= sentence.length;
  }
  return found;
}
