const SVG = "http://www.w3.org/2000/svg";
/** The drawing's own units, given by the `viewBox` in index.html. */
const WIDTH = 160;
const HEIGHT = 32;
const BARS = 40;
const STEP = WIDTH / BARS;
/** The least gap that fills the height, in milliseconds: an even answer should look even, not magnified. */
const LEAST_SCALE = 120;

/** Draws the last gaps between deltas as bars: even bars are an even delivery. */
export class Sparkline {
  readonly #bars: SVGRectElement[];

  constructor(svg: SVGSVGElement) {
    this.#bars = Array.from({ length: BARS }, (_, position) => bar(position));
    svg.append(...this.#bars);
  }

  /** Shows the last of `gaps`, with the pace at half the height. Milliseconds. */
  draw(gaps: readonly number[], paceMs: number | undefined): void {
    const shown = gaps.slice(-BARS);
    const scale = Math.max(LEAST_SCALE, 2 * (paceMs ?? 0));
    for (const [position, element] of this.#bars.entries()) {
      const gap = shown[position] ?? 0;
      const height = Math.min(1, gap / scale) * HEIGHT;
      element.setAttribute("height", height.toFixed(1));
      element.setAttribute("y", (HEIGHT - height).toFixed(1));
    }
  }
}

function bar(position: number): SVGRectElement {
  const element = document.createElementNS(SVG, "rect");
  element.setAttribute("x", String(position * STEP));
  element.setAttribute("width", String(STEP - 1.2));
  element.setAttribute("height", "0");
  element.setAttribute("y", String(HEIGHT));
  element.setAttribute("rx", "1");
  return element;
}
