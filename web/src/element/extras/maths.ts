// A chunk of its own, loaded when an answer has a formula.
import katex from "katex";

/**
 * The MathML of a formula in TeX: browsers draw it by themselves, so it needs no style and no font. Throws what is no TeX.
 * Nothing in it can load anything, be larger than a line of text is long, or expand for ever.
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
  // The source once more, which would be shown beside it.
  return html.replace(/<annotation.*?<\/annotation>/gs, "");
}
