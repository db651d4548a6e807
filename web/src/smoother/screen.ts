/** What the playout needs of the browser. */
export interface Screen {
  /** Milliseconds of a clock that never goes back. */
  now(): number;
  /** Calls `draw` once: before the next frame, or when the page is hidden and has no more frames. */
  onNextFrame(draw: () => void): void;
  /** The reader has asked for no more motion than needed. */
  prefersStillness(): boolean;
  /** Nobody sees the page, and no frames are drawn. */
  isHidden(): boolean;
}

export const browserScreen: Screen = {
  now: () => performance.now(),
  onNextFrame(draw) {
    const once = () => {
      cancelAnimationFrame(frame);
      document.removeEventListener("visibilitychange", once);
      draw();
    };
    const frame = requestAnimationFrame(once);
    document.addEventListener("visibilitychange", once);
  },
  prefersStillness: () => matchMedia("(prefers-reduced-motion: reduce)").matches,
  isHidden: () => document.hidden,
};
