import type { Env, MarkdownIt, Token } from "markdown-it";
import { type Extras, NO_EXTRAS } from "../extras/extras.ts";
import { Finisher } from "../extras/finisher.ts";
import type { Strings } from "../strings.ts";
import { dress } from "./dress.ts";
import { followFootnote, undressReferences } from "./footnotes.ts";
import { Images } from "./images.ts";
import { openEnv } from "./inline-context.ts";
import { markdownParser } from "./markdown-parser.ts";
import { decided } from "./open-end.ts";
import { OpenFence } from "./open-fence.ts";
import { patchChildren } from "./patch.ts";
import { safeHtml } from "./safe-html.ts";

/** An open block longer than this is shown in several: no delta costs more than to parse this many characters. */
export const LONGEST_OPEN_BLOCK = 20_000;
/** The token of what defines a link, and shows nothing. */
const DEFINITION = "reference_definition";
/** The end of a text to whose last paragraph nothing is added. */
const BLANK_LINE = /\n[ \t]*\n[ \t]*$/;

/**
 * Renders Markdown into an element while it arrives. Only the last block can still change, so only that is parsed again; the
 * blocks before it are settled. Code is appended without being parsed at all.
 */
export class StreamingMarkdown {
  readonly #element: HTMLElement;
  readonly #parser: MarkdownIt;
  readonly #images: Images;
  readonly #finisher: Finisher;
  readonly #strings: Strings;
  #source = "";
  /** The source of what isn't settled, and the last node before it. */
  #open = "";
  #settled: ChildNode | null = null;
  /** Definitions of links, which hold for the whole text. */
  #env: Env = {};
  #fence: OpenFence | undefined;

  /**
   * `element` is to have no other children. `extras`: what is to be done with blocks once they are settled; `onFinished` is
   * called whenever it has been.
   */
  constructor(element: HTMLElement, extras: Extras = NO_EXTRAS, onFinished: () => void = () => {}) {
    this.#element = element;
    this.#parser = markdownParser(extras);
    this.#images = new Images(extras.images, extras.strings);
    this.#strings = extras.strings;
    this.#finisher = new Finisher(extras, onFinished);
    element.addEventListener("click", ({ target }) => {
      if (!(target instanceof HTMLElement)) return;
      this.#images.load(target);
      followFootnote(element, target);
    });
    const giveUp = ({ target }: Event): void => {
      if (target instanceof HTMLImageElement) this.#images.giveUp(target);
    };
    element.addEventListener("error", giveUp, true);
  }

  /** All of the source so far. */
  get source(): string {
    return this.#source;
  }

  /** The source grows by `text`. */
  append(text: string): void {
    const added = text.replaceAll("\r", "").replaceAll("\0", "\ufffd");
    this.#source += added;
    this.#take(added);
  }

  /** The source is `text` instead. */
  replace(text: string): void {
    [this.#source, this.#open, this.#settled, this.#env, this.#fence] = ["", "", null, {}, undefined];
    this.#element.replaceChildren();
    this.append(text);
  }

  /** No more will come. Resolves once the extras are drawn as well. */
  end(): Promise<void> {
    this.#fence?.end();
    const open = this.#nodes(this.#parser.parse(this.#open, this.#env));
    let settled = this.#settled;
    if (this.#fence === undefined) this.#show(open);
    if (this.#env.references !== undefined) {
      // What stands before a link's definition was shown without it.
      settled = null;
      patchChildren(this.#element, null, this.#nodes(this.#parser.parse(this.#source, {})));
    }
    undressReferences(this.#element);
    this.#finish(settled, this.#element.lastChild);
    return this.#finisher.done;
  }

  #take(added: string): void {
    const rest = this.#fence === undefined ? added : this.#fence.append(added);
    if (rest === undefined) return;
    if (this.#fence !== undefined) {
      this.#settled = this.#fence.element;
      this.#finisher.finish(this.#fence.element);
      this.#fence = undefined;
    }
    this.#open += rest;
    if (rest.includes("\n")) this.#settle();
    while (this.#open.length > LONGEST_OPEN_BLOCK) this.#settleTo(this.#cut());
    this.#showOpen();
  }

  /** Settles every block but the last. A line decides which block it belongs to only once it is whole. */
  #settle(): void {
    const lines = this.#open.slice(0, this.#open.lastIndexOf("\n") + 1);
    const blocks: Token[] = [];
    this.#parser.block.parse(lines, this.#parser, this.#copyOfEnv(), blocks);
    const last = [...blocks]
      .reverse()
      .find(({ type, level, map }) => level === 0 && map !== null && type !== DEFINITION);
    this.#settleTo(offsetOfLine(lines, last?.map?.[0] ?? 0));
  }

  #settleTo(offset: number): void {
    if (offset === 0) return;
    const before = this.#settled;
    const nodes = this.#nodes(this.#parser.parse(this.#open.slice(0, offset), this.#env));
    this.#settled = patchChildren(this.#element, before, nodes, true); // the rest is shown next
    this.#open = this.#open.slice(offset);
    this.#finish(before, this.#settled);
  }

  /** Finishes the blocks behind `before`, up to `last`. */
  #finish(before: ChildNode | null, last: ChildNode | null): void {
    let node = before;
    while (node !== last) {
      node = node === null ? this.#element.firstChild : node.nextSibling;
      if (node instanceof Element) this.#finisher.finish(node);
    }
  }

  /** Where an open block that has grown too long is cut: behind a line, if there is one. */
  #cut(): number {
    return this.#open.lastIndexOf("\n", LONGEST_OPEN_BLOCK - 1) + 1 || LONGEST_OPEN_BLOCK;
  }

  #showOpen(): void {
    const opened = OpenFence.at(this.#open, this.#strings);
    if (opened === undefined) {
      const source = decided(this.#open);
      const known = this.#copyOfEnv();
      const env = BLANK_LINE.test(source.slice(-100)) ? known : openEnv(known);
      this.#show(this.#nodes(this.#parser.parse(source, env)));
      return;
    }
    this.#fence = opened.fence;
    this.#open = "";
    this.#show([]);
    this.#element.append(opened.fence.element);
    this.#take(opened.rest);
  }

  #show(nodes: readonly ChildNode[]): ChildNode | null {
    return patchChildren(this.#element, this.#settled, nodes);
  }

  #nodes(tokens: Token[]): ChildNode[] {
    const html = this.#parser.renderer.render(tokens, this.#parser.options, this.#env);
    return [...dress(safeHtml(html), this.#strings, this.#images).children];
  }

  /** A definition that is still arriving must not be remembered. */
  #copyOfEnv(): Env {
    return this.#env.references === undefined ? {} : { references: { ...this.#env.references } };
  }
}

function offsetOfLine(text: string, line: number): number {
  let offset = 0;
  for (let passed = 0; passed < line; passed += 1) offset = text.indexOf("\n", offset) + 1;
  return offset;
}
