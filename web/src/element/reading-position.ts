import { keepPlace, keptPlace, type Place } from "./kept-place.ts";

/** How near to the end the reader must come, in pixels, for the conversation to follow the answer again. */
const FOLLOW_WITHIN = 60;
/** The difference up to which two positions count as equal: browsers round them. */
const ROUNDING = 2;

/** An element that is to stay in its place on the screen, and its distance from the scroller's top in pixels. */
interface Held {
  readonly element: HTMLElement;
  readonly offset: number;
}

/**
 * Keeps the reader's place. At the end it follows the growing conversation: text, formulas, fonts. At any other
 * place what the reader looks at stays where it is.
 */
export class ReadingPosition {
  readonly #scroller: HTMLElement;
  readonly #onFollow: (follows: boolean) => void;
  #follows = true;
  /** A place that was restored: what is above it may still change its height. It holds until the reader scrolls. */
  #held: Held | undefined;
  /** The scroller's last known position: any difference from it is the reader's scrolling. */
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

  /** Scrolls so that the top of `element` is at a place in the window: it replaces another element there. */
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
    // A reader who scrolls up wants to read there.
    this.#hold(moved < 0 ? this.#toEnd < ROUNDING : this.#follows || this.#toEnd < FOLLOW_WITHIN);
  }

  get #toEnd(): number {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #hold(follows: boolean, held?: Held): void {
    this.#follows = follows;
    this.#held = held;
    // If the browser kept a place, too, that would look like the reader scrolling.
    this.#scroller.classList.toggle("held", follows || held !== undefined);
    this.#onFollow(follows);
  }

  /** The place where the reader is; `undefined` at the end, or where there is nothing to read. */
  #place(): Place | undefined {
    if (this.#follows) return undefined;
    const answers = this.#answers();
    const answer = [...answers].reverse().find((it) => this.#offsetIn(it) >= 0) ?? answers[0];
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
