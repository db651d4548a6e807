import type { ImagePolicy } from "../markdown/images.ts";
import { ENGLISH, type Strings } from "../strings.ts";
import type { DrawDiagram } from "./diagrams.ts";

/** What is done with an answer's blocks besides Markdown, and the words of what is around the text. */
export interface Extras {
  /** Whether formulas are drawn, and code in a language coloured: each loads a library once an answer needs it. */
  readonly maths: boolean;
  readonly codeColours: boolean;
  /** Which images load by themselves. */
  readonly images: ImagePolicy;
  /** Draws diagrams, where the page has something that does. */
  readonly diagrams?: DrawDiagram | undefined;
  readonly strings: Strings;
}

export const NO_EXTRAS: Extras = { maths: false, codeColours: false, images: "ask", strings: ENGLISH };
export const ALL_EXTRAS: Extras = { ...NO_EXTRAS, maths: true, codeColours: true };
