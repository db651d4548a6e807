import type { Strings } from "../strings.ts";

/** The class of a code block's Copy button, by which a click on it is recognized. */
export const COPY_CODE = "copy-code";

/** A block of code with its language and a Copy button. Its text is never parsed. */
export function codeBlock(language: string, text: string, strings: Strings): HTMLElement {
  const block = document.createElement("div");
  block.className = "code-block";
  block.dir = "ltr";
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

/** The name of a code block's language; undefined for none. */
export function languageNamed(block: Element, { plainText }: Strings): string | undefined {
  const name = block.querySelector(".code-bar > span")?.textContent;
  return name === plainText ? undefined : name?.toLowerCase();
}

/** Adds to the text of a code block. */
export function appendCode(block: HTMLElement, text: string): void {
  const last = block.querySelector("code")?.lastChild;
  if (last instanceof Text) last.appendData(text);
}
