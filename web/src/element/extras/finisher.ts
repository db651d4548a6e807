import { languageNamed } from "../markdown/code-block.ts";
import { safeMathml, safeSpans } from "../markdown/safe-html.ts";
import { showDiagram } from "./diagrams.ts";
import type { Extras } from "./extras.ts";

/** Milliseconds of work before yielding to the browser. */
const SLICE_MS = 8;
/**
 * The most formulas of an answer that are rendered, and the most characters and blocks of code that are coloured. Each
 * change lays all of them out again; for a paragraph of a thousand formulas that takes longer than a frame.
 */
const MOST_FORMULAS = 500;
const MOST_CODE = 300_000;
const MOST_BLOCKS = 300;
/** The most characters of a formula and of a block: rendering one takes a few frames at most. */
const LONGEST_FORMULA = 1_500;
const LONGEST_CODE = 20_000;
const MERMAID = "mermaid";

const libraries = new Map<string, Promise<unknown>>();

/** Finishes the final blocks of an answer, one after the other and in small slices. */
export class Finisher {
  readonly #extras: Extras;
  readonly #onDrawn: () => void;
  #done: Promise<void> = Promise.resolve();
  #sliceBeganAt = 0;
  #formulas = 0;
  #colouredCharacters = 0;
  #colouredBlocks = 0;
  #pendingCount = 0;
  #hasDrawn = false;

  /** `onDrawn` is called whenever something has changed on the screen. */
  constructor(extras: Extras, onDrawn: () => void) {
    this.#extras = extras;
    this.#onDrawn = onDrawn;
  }

  /** Resolves once all pending work is finished. */
  get done(): Promise<void> {
    return this.#done;
  }

  finish(block: Element): void {
    const { maths, codeColours, diagrams, strings } = this.#extras;
    if (maths) for (const code of within(block, "code[data-maths]")) this.#typeset(code);
    for (const fenced of within(block, ".code-block")) {
      const language = languageNamed(fenced, strings);
      if (diagrams !== undefined && language === MERMAID) this.#add(() => showDiagram(fenced, diagrams, strings));
      else if (codeColours && language !== undefined) this.#colour(fenced, language);
    }
  }

  #typeset(code: HTMLElement): void {
    const tex = code.textContent ?? "";
    if (this.#formulas >= MOST_FORMULAS || tex.length > LONGEST_FORMULA) return;
    this.#formulas += 1;
    this.#add(async () => {
      const library = await loaded("formulas", () => import("./maths.ts"));
      const mathml = library?.mathmlOf(tex, code.dataset.maths === "block");
      await this.#giveWay();
      if (mathml !== undefined) code.replaceWith(safeMathml(mathml));
    });
  }

  #colour(block: HTMLElement, language: string): void {
    const code = block.querySelector("code");
    const text = code?.textContent ?? "";
    if (text === "" || this.#colouredBlocks >= MOST_BLOCKS) return;
    if (text.length > LONGEST_CODE || this.#colouredCharacters + text.length > MOST_CODE) return;
    this.#colouredBlocks += 1;
    this.#colouredCharacters += text.length;
    this.#add(async () => {
      const library = await loaded("code colours", () => import("./code-colours.ts"));
      const html = library?.colouredHtml(text, language);
      await this.#giveWay();
      if (html !== undefined) code?.replaceChildren(safeSpans(html));
    });
  }

  /** Adds work. A failure leaves its block as it is. */
  #add(work: () => Promise<void>): void {
    this.#pendingCount += 1;
    this.#done = this.#done.then(async () => {
      await this.#giveWay();
      await work().then(
        () => {
          this.#hasDrawn = true;
        },
        () => {},
      );
      this.#pendingCount -= 1;
      if (this.#pendingCount === 0) this.#reportDrawn();
    });
  }

  async #giveWay(): Promise<void> {
    if (performance.now() - this.#sliceBeganAt < SLICE_MS) return;
    this.#reportDrawn();
    await new Promise((resolve) => setTimeout(resolve));
    this.#sliceBeganAt = performance.now();
  }

  /** Reports what was rendered, once a slice, since each report causes a layout. */
  #reportDrawn(): void {
    if (!this.#hasDrawn) return;
    this.#hasDrawn = false;
    this.#onDrawn();
  }
}

function within(block: Element, selector: string): HTMLElement[] {
  const found = [...block.querySelectorAll<HTMLElement>(selector)];
  return block instanceof HTMLElement && block.matches(selector) ? [block, ...found] : found;
}

/** A library; `undefined` if it can't be loaded. The console has one warning, and there is no retry. */
function loaded<Library>(name: string, load: () => Promise<Library>): Promise<Library | undefined> {
  let library = libraries.get(name) as Promise<Library | undefined> | undefined;
  if (library === undefined) {
    library = load().catch((error) => {
      // biome-ignore lint/suspicious/noConsole: the page's developer may want to know, its reader not
      console.info(`Evenflow: ${name} could not be loaded, so they are shown as plain text: ${error}`);
      return undefined;
    });
    libraries.set(name, library);
  }
  return library;
}
