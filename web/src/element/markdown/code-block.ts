import type { Strings } from "../strings.ts";

/** A letter of a script that is written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** The class by which a click on a code block's Copy button is known. */
export const COPY_CODE = "copy-code";

/** A block of code with its language and a Copy button. Its text is never parsed. */
export function codeBlock(language: string, text: string, strings: Strings): HTMLElement {
  const block = document.createElement("div");
  block.className = "code-block";
  const bar = document.createElement("div");
  bar.className = "code-bar";
  const name = document.createElement("span");
  name.textContent = language === "" ? strings.plainText : language;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = COPY_CODE;
  copy.textContent = strings.copy;
  copy.setAttribute("aria-label", strings.copyCodeIn(name.textContent));
  bar.append(name, copy);
  const scroller = document.createElement("pre");
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "group");
  scroller.setAttribute("aria-label", strings.codeIn(name.textContent));
  const code = document.createElement("code");
  code.append(document.createTextNode(text));
  scroller.append(code);
  block.append(bar, scroller);
  return block;
}

/** The language of a code block, as it is named; undefined for none. */
export function languageNamed(block: Element, { plainText }: Strings): string | undefined {
  const name = block.querySelector(".code-bar > span")?.textContent;
  return name === plainText ? undefined : name?.toLowerCase();
}

/** Adds to the text of a code block. */
export function appendCode(block: HTMLElement, text: string): void {
  const last = block.querySelector("code")?.lastChild;
  if (last instanceof Text) last.appendData(text);
}

/**
 * Makes code blocks of what Markdown has made `pre` elements, and lets wide tables scroll on their own. A block with
 * letters from right to left has the direction of the first letter in it that isn't code.
 */
export function dress(fragment: DocumentFragment, strings: Strings): DocumentFragment {
  for (const plain of fragment.querySelectorAll("pre")) {
    const code = plain.querySelector("code");
    const text = (code?.textContent ?? "").replace(/\n$/, "");
    plain.replaceWith(codeBlock(code?.dataset.language ?? "", text, strings));
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = document.createElement("div");
    scroller.className = "table-scroller";
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "group");
    scroller.setAttribute("aria-label", strings.table);
    table.replaceWith(scroller);
    scroller.append(table);
  }
  for (const block of fragment.children) {
    if (!RIGHT_TO_LEFT.test(block.textContent ?? "") || block.matches(".code-block")) continue;
    block.setAttribute("dir", "auto");
    for (const code of block.querySelectorAll(":not(pre) > code")) code.setAttribute("dir", "ltr");
  }
  return fragment;
}
