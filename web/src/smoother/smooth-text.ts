import { Playout } from "./playout.ts";
import type { Screen } from "./screen.ts";

/** How long drawing may take of the time between two draws: a quarter. What is slow to draw is drawn less often. */
const IDLE_SHARE = 3;

/** One answer on its way to the screen: takes text as it arrives, and has it drawn evenly, frame by frame. */
export class SmoothText {
  readonly #screen: Screen;
  readonly #draw: (text: string) => void;
  #playout = new Playout();
  #frameAsked = false;
  #restUntil = 0;
  #ended: (() => void) | undefined;

  /** `draw` is given each further piece of the text. */
  constructor(screen: Screen, draw: (text: string) => void) {
    this.#screen = screen;
    this.#draw = draw;
  }

  /** Text arrives. */
  push(text: string): void {
    this.#playout.push(text, this.#screen.now());
    this.#continue();
  }

  /** The answer has ended; resolves when the last of it was drawn. */
  end(): Promise<void> {
    return new Promise((resolve) => {
      this.#ended = resolve;
      this.#playout.end(this.#screen.now());
      this.#continue();
    });
  }

  /** Forgets what was not drawn: other text takes its place. */
  restart(): void {
    this.#playout = new Playout();
  }

  #continue(): void {
    // A hidden page has no frames to wait for, and readers who prefer stillness are shown text as it comes.
    if (this.#screen.isHidden()) this.#show(this.#playout.flush());
    else if (this.#screen.prefersStillness()) this.#show(this.#playout.flushWhole(this.#screen.now()));
    if (!this.#playout.isWaiting) {
      this.#ended?.();
      return;
    }
    if (this.#frameAsked) return;
    this.#frameAsked = true;
    this.#screen.onNextFrame(() => {
      this.#frameAsked = false;
      const now = this.#screen.now();
      if (now >= this.#restUntil) this.#show(this.#playout.take(now));
      this.#continue();
    });
  }

  #show(text: string): void {
    if (text === "") return;
    const begun = this.#screen.now();
    this.#draw(text);
    const drawn = this.#screen.now();
    this.#restUntil = drawn + IDLE_SHARE * (drawn - begun);
  }
}
