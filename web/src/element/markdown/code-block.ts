/** The class by which a click on a code block's Copy button is known. */
export const COPY_CODE = "copy-code";

/** What a block is called that names no language. */
const PLAIN = "text";

/** A block of code with its language and a Copy button. Its text is never parsed. */
export function codeBlock(language: string, text: string): HTMLElement {
  const block = document.createElement("div");
  block.className = "code-block";
  block.dir = "ltr";
  const bar = document.createElement("div");
  bar.className = "code-bar";
  const name = document.createElement("span");
  name.textContent = language === "" ? PLAIN : language;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = COPY_CODE;
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", `Copy code, ${name.textContent}`);
  bar.append(name, copy);
  const scroller = document.createElement("pre");
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "region");
  scroller.setAttribute("aria-label", `Code, ${name.textContent}`);
  const code = document.createElement("code");
  code.append(document.createTextNode(text));
  scroller.append(code);
  block.append(bar, scroller);
  return block;
}

/** The language of a code block, as it is named; undefined for none. */
export function languageNamed(block: Element): string | undefined {
  const name = block.querySelector(".code-bar > span")?.textContent;
  return name === PLAIN ? undefined : name?.toLowerCase();
}

/** Adds to the text of a code block. */
export function appendCode(block: HTMLElement, text: string): void {
  const last = block.querySelector("code")?.lastChild;
  if (last instanceof Text) last.appendData(text);
}

/**
 * Makes code blocks of what Markdown has made `pre` elements, and lets wide tables scroll on their own. Each block has the
 * direction of its text, in which code doesn't count.
 */
export function dress(fragment: DocumentFragment): DocumentFragment {
  for (const plain of fragment.querySelectorAll("pre")) {
    const code = plain.querySelector("code");
    plain.replaceWith(codeBlock(code?.dataset.language ?? "", (code?.textContent ?? "").replace(/\n$/, "")));
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = document.createElement("div");
    scroller.className = "table-scroller";
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "region");
    scroller.setAttribute("aria-label", "Table");
    table.replaceWith(scroller);
    scroller.append(table);
  }
  for (const code of fragment.querySelectorAll(":not(pre) > code")) code.setAttribute("dir", "ltr");
  for (const block of fragment.children) if (!block.hasAttribute("dir")) block.setAttribute("dir", "auto");
  return fragment;
}
