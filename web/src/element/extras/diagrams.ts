import { made } from "../made.ts";
import type { Strings } from "../strings.ts";

/** The page's function that renders a diagram from source in Mermaid's language. */
export type DrawDiagram = (source: string) => Promise<SVGElement | string> | SVGElement | string;

/** A longer source stays code. */
const LONGEST = 20_000;

/**
 * Shows a block of code as its diagram, with the code folded below. The diagram is an image: whatever the model wrote,
 * it can't run scripts, load anything or change the page.
 */
export async function showDiagram(block: HTMLElement, draw: DrawDiagram, strings: Strings): Promise<void> {
  const scroller = block.querySelector("pre");
  const source = block.querySelector("code")?.textContent ?? "";
  if (scroller === null || source.length > LONGEST) return;
  const image = imageOf(await draw(source), strings.diagram);
  await image.decode(); // rejects where the page's policy has no `img-src data:`
  const folded = made("details", { class: "diagram-source" }, made("summary", { text: strings.diagramSource }));
  scroller.replaceWith(image, folded);
  folded.append(scroller);
}

function imageOf(drawn: SVGElement | string, name: string): HTMLImageElement {
  const svg =
    typeof drawn === "string" ? new DOMParser().parseFromString(drawn, "text/html").querySelector("svg") : drawn;
  if (svg === null) throw new TypeError("`diagrams` is to return an SVG element, or its text");
  const text = new XMLSerializer().serializeToString(svg);
  const image = made("img", { class: "diagram", attributes: { alt: name } });
  // Mermaid sets the width to "100 %", which means nothing for an image.
  const width = Number(svg.getAttribute("viewBox")?.split(/[\s,]+/)[2]);
  if (width > 0) image.width = Math.ceil(width);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  return image;
}
