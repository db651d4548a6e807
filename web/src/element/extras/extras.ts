import type { ImagePolicy } from "../markdown/images.ts";
import { ENGLISH, type Strings } from "../strings.ts";
import type { DrawDiagram } from "./diagrams.ts";

/** Options for an answer's blocks, and the texts of their controls. */
export interface Extras {
  /** Whether formulas are rendered, and code is coloured: each loads a library when an answer needs it. */
  readonly maths: boolean;
  readonly codeColours: boolean;
  /** Which images load automatically. */
  readonly images: ImagePolicy;
  /** Renders diagrams, if the page has a function for that. */
  readonly diagrams?: DrawDiagram | undefined;
  readonly strings: Strings;
}

export const NO_EXTRAS: Extras = { maths: false, codeColours: false, images: "ask", strings: ENGLISH };
export const ALL_EXTRAS: Extras = { ...NO_EXTRAS, maths: true, codeColours: true };
