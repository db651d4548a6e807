import { made } from "../made.ts";
import { isSafeLink, NEW_WINDOW } from "../markdown/safe-urls.ts";
import type { Strings } from "../strings.ts";

/** The sources of an answer, as links. */
export class SourceList {
  readonly #list = made("ol");
  readonly element: HTMLElement;
  readonly #known = new Set<string>();

  constructor({ sources }: Strings) {
    this.element = made(
      "nav",
      { class: "sources", testId: "sources", hidden: true, attributes: { "aria-label": sources } },
      made("span", { text: sources }),
      this.#list,
    );
  }

  /** Adds a source, once. Without a safe address it is not a link. */
  add(url: string, title: string): void {
    const known = url === "" ? title : url;
    if (this.#known.has(known)) return;
    this.#known.add(known);
    const text = title === "" ? url : title;
    const attributes = { href: url, ...Object.fromEntries(NEW_WINDOW) };
    const source = isSafeLink(url) ? made("a", { text, attributes }) : made("span", { text });
    this.#list.append(made("li", {}, source));
    this.element.hidden = false;
  }

  clear(): void {
    this.#known.clear();
    this.#list.replaceChildren();
    this.element.hidden = true;
  }
}
