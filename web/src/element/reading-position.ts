import { keepPlace, keptPlace, type Place } from "./kept-place.ts";

/** The distance from the end, in pixels, within which the conversation follows the answer again. */
const FOLLOW_WITHIN = 60;
/** The difference up to which two positions count as equal: browsers round them. */
const ROUNDING = 2;

/** An element that keeps its position on the screen: its distance from the scroller's top, in pixels. */
interface Held {
  readonly element: HTMLElement;
  readonly offset: number;
}

/**
 * Keeps the scroll position. At the end it follows the growing conversation: text, formulas, fonts. Elsewhere the text
 * on the screen stays where it is.
 */
export class ReadingPosition {
  readonly #scroller: HTMLElement;
  readonly #onFollow: (follows: boolean) => void;
  #follows = true;
  /** A restored position, which holds until the reader scrolls: content above it may still change its height. */
  #held: Held | undefined;
  /** The scroller's last known position: any difference from it means that the reader has scrolled. */
  #top = 0;

  /** `scroller` has its children already, which may grow; `onFollow` receives whether the end is followed. */
  constructor(scroller: HTMLElement, onFollow: (follows: boolean) => void) {
    this.#scroller = scroller;
    this.#onFollow = onFollow;
    this.#hold(true);
    scroller.addEventListener("scroll", () => this.#onScroll());
    const growth = new ResizeObserver(() => this.keep());
    for (const box of [scroller, ...scroller.children]) growth.observe(box);
  }

  /** Stores the position for a reload of the page. */
  save(): void {
    keepPlace(this.#place(), this.#responseIds());
  }

  /** Restores the position from before the reload. */
  load(): void {
    const place = keptPlace(this.#responseIds());
    const answer = this.#answers().find(({ dataset }) => dataset.responseId === place?.responseId);
    if (place === undefined || answer === undefined) return;
    this.#hold(false, { element: answer, offset: place.offset });
    this.keep();
  }

  /** Scrolls so that the top of `element` is at `top` in the window: it replaces another element there. */
  bring(element: HTMLElement, top: number): void {
    this.#hold(false, { element, offset: this.#scroller.getBoundingClientRect().top - top });
    this.keep();
    if (this.#toEnd < ROUNDING) this.#hold(true);
  }

  goToEnd(): void {
    this.#hold(true);
    this.keep();
  }

  /** Restores the position after the content or its box has changed. */
  keep(): void {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else if (this.#held?.element.isConnected) {
      const { element, offset } = this.#held;
      this.#scroller.scrollTop += offset - this.#offsetIn(element);
    } else return;
    this.#top = this.#scroller.scrollTop;
  }

  /** Runs `add`, which adds something above. The text on the screen stays where it is. */
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
    // The browser's own scroll anchoring would look like the reader scrolling.
    this.#scroller.classList.toggle("held", follows || held !== undefined);
    this.#onFollow(follows);
  }

  /** The reader's position; `undefined` at the end, or without an answer. */
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

  /** The distance of the scroller's top below the top of an element. */
  #offsetIn(element: HTMLElement): number {
    return this.#scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
  }
}
