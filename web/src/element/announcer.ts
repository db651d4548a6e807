import { SentenceSplitter } from "./sentence-splitter.ts";
import { Spoken } from "./spoken.ts";

/** How many announcements stay in the region: it is heard, not read. */
const KEPT = 12;

/** Speaks to screen readers, through a hidden live region, in whole sentences: a token at a time would be a stutter. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #splitter = new SentenceSplitter();
  #spoken = new Spoken();

  constructor(region: HTMLElement) {
    this.#region = region;
  }

  /** Adds text of the answer; what makes whole sentences is said. */
  addText(text: string): void {
    for (const sentence of this.#splitter.push(text)) this.say(this.#spoken.of(sentence));
  }

  /** Says what is left of the answer, and then `ending`. */
  finish(ending: string): void {
    for (const sentence of this.#splitter.flush()) this.say(this.#spoken.of(sentence));
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
    while (this.#region.childElementCount > KEPT) this.#region.firstElementChild?.remove();
  }
}
