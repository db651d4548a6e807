import { keepPlace, keptPlace, type Place } from "./kept-place.ts";

/** How near to the end the reader must come, in pixels, for the conversation to follow the answer again. */
const FOLLOW_WITHIN = 60;
/** By how much positions may differ that are the same: browsers round them. */
const ROUNDING = 2;

/** What is to stay where it is on the screen: so many pixels above it is the top of the scroller, or below. */
interface Held {
  readonly element: HTMLElement;
  readonly offset: number;
}

/**
 * Where the reader is. At the end the conversation is followed as it grows, whatever makes it grow: text, formulas, fonts. At
 * any other place what the reader looks at stays where it is.
 */
export class ReadingPosition {
  readonly #scroller: HTMLElement;
  readonly #onFollow: (follows: boolean) => void;
  #follows = true;
  /** A place that was restored: what is above it may still change its height. It holds until the reader scrolls. */
  #held: Held | undefined;
  /** Where the scroller was when it was last looked at: what differs from that is the reader's doing. */
  #top = 0;

  /** `scroller` has its whole content already, which may grow; `onFollow` is told whether the end is followed. */
  constructor(scroller: HTMLElement, onFollow: (follows: boolean) => void) {
    this.#scroller = scroller;
    this.#onFollow = onFollow;
    this.#hold(true);
    scroller.addEventListener("scroll", () => this.#onScroll());
    const growth = new ResizeObserver(() => this.keep());
    for (const box of [scroller, ...scroller.children]) growth.observe(box);
  }

  /** Notes where the reader is, for when the page is loaded again. */
  save(): void {
    keepPlace(this.#place(), this.#responseIds());
  }

  /** Goes to where the reader was when the page was left. */
  load(): void {
    const place = keptPlace(this.#responseIds());
    const answer = this.#answers().find(({ dataset }) => dataset.responseId === place?.responseId);
    if (place === undefined || answer === undefined) return;
    this.#hold(false, { element: answer, offset: place.offset });
    this.keep();
  }

  /** Brings `element` to where its top is to be in the window: it stands for another that was there. */
  bring(element: HTMLElement, top: number): void {
    this.#hold(false, { element, offset: this.#scroller.getBoundingClientRect().top - top });
    this.keep();
    if (this.#toEnd < ROUNDING) this.#hold(true);
  }

  goToEnd(): void {
    this.#hold(true);
    this.keep();
  }

  /** Brings the reader back to where they were, after the content or its box has changed. */
  keep(): void {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else if (this.#held?.element.isConnected) {
      const { element, offset } = this.#held;
      this.#scroller.scrollTop += offset - this.#offsetIn(element);
    } else return;
    this.#top = this.#scroller.scrollTop;
  }

  /** Has `add` add something above; what the reader looks at stays where it is. */
  addAbove(add: () => void): void {
    const fromEnd = this.#scroller.scrollHeight - this.#scroller.scrollTop;
    add();
    this.#scroller.scrollTop = this.#scroller.scrollHeight - fromEnd;
    this.#top = this.#scroller.scrollTop;
  }

  #onScroll(): void {
    const moved = this.#scroller.scrollTop - this.#top;
    this.#top = this.#scroller.scrollTop;
    if (Math.abs(moved) < ROUNDING) return;
    // Whoever scrolls up wants to read, and is not to be torn away.
    this.#hold(moved < 0 ? this.#toEnd < ROUNDING : this.#follows || this.#toEnd < FOLLOW_WITHIN);
  }

  get #toEnd(): number {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #hold(follows: boolean, held?: Held): void {
    this.#follows = follows;
    this.#held = held;
    // Were the browser to keep a place, too, that would look as if the reader had scrolled.
    this.#scroller.classList.toggle("held", follows || held !== undefined);
    this.#onFollow(follows);
  }

  /** The place where the reader is; `undefined` at the end, or where there is nothing to read. */
  #place(): Place | undefined {
    if (this.#follows) return undefined;
    const answers = this.#answers();
    const answer = answers.findLast((it) => this.#offsetIn(it) >= 0) ?? answers[0];
    const responseId = answer?.dataset.responseId;
    return answer && responseId ? { responseId, offset: this.#offsetIn(answer) } : undefined;
  }

  #responseIds(): string[] {
    return this.#answers().map(({ dataset }) => dataset.responseId ?? "");
  }

  #answers(): HTMLElement[] {
    return [...this.#scroller.querySelectorAll<HTMLElement>(":not([hidden]) > [data-response-id]")];
  }

  /** How far below the top of an element that of the scroller is. */
  #offsetIn(element: HTMLElement): number {
    return this.#scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
  }
}
