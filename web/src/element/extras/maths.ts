// A separate chunk, loaded when an answer has a formula.
import katex from "katex";

/**
 * The MathML of a formula in TeX: browsers render it without styles and fonts. Throws for invalid TeX. It can't load
 * anything, be larger than a line of text is long, or expand without end.
 */
export function mathmlOf(tex: string, isBlock: boolean): string {
  const html = katex.renderToString(tex, {
    displayMode: isBlock,
    output: "mathml",
    strict: "ignore",
    trust: false,
    maxSize: 50,
    maxExpand: 500,
  });
  // A copy of the source, which would be shown beside it.
  return html.replace(/<annotation.*?<\/annotation>/gs, "");
}
