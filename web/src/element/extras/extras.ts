import { languageNamed } from "../markdown/code-block.ts";
import { safeMathml, safeSpans } from "../markdown/safe-html.ts";
import { ENGLISH, type Strings } from "../strings.ts";

/** What a page may switch on: each loads a library once an answer needs it. And the words of what is around the text. */
export interface Extras {
  readonly maths: boolean;
  readonly codeColours: boolean;
  readonly strings: Strings;
}

export const NO_EXTRAS: Extras = { maths: false, codeColours: false, strings: ENGLISH };
/** Longer code stays as it is: to colour it would hold everything else up. */
const LONGEST_CODE = 50_000;

/** Finishes a block to which nothing is added any more. What a library doesn't know, or where it can't be had, stays as it is. */
export function finish(block: Element, { maths, codeColours, strings }: Extras): void {
  if (maths) for (const code of within(block, "code[data-maths]")) void typeset(code).catch(() => {});
  if (codeColours) for (const fenced of within(block, ".code-block")) void colour(fenced, strings).catch(() => {});
}

function within(block: Element, selector: string): HTMLElement[] {
  const found = [...block.querySelectorAll<HTMLElement>(selector)];
  return block instanceof HTMLElement && block.matches(selector) ? [block, ...found] : found;
}

async function typeset(code: HTMLElement): Promise<void> {
  const { mathmlOf } = await import("./maths.ts");
  code.replaceWith(safeMathml(mathmlOf(code.textContent ?? "", code.dataset.maths === "block")));
}

async function colour(block: HTMLElement, strings: Strings): Promise<void> {
  const language = languageNamed(block, strings);
  const code = block.querySelector("code");
  const text = code?.textContent ?? "";
  if (language === undefined || text.length > LONGEST_CODE) return;
  const { colouredHtml } = await import("./code-colours.ts");
  const html = colouredHtml(text, language);
  if (html !== undefined) code?.replaceChildren(safeSpans(html));
}
