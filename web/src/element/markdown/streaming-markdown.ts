import type { Env, MarkdownIt, Token } from "markdown-it";
import { type Extras, finish, NO_EXTRAS } from "../extras/extras.ts";
import { dress } from "./code-block.ts";
import { markdownParser } from "./markdown-parser.ts";
import { OpenFence } from "./open-fence.ts";
import { withMarksClosed } from "./open-marks.ts";
import { patchChildren } from "./patch.ts";
import { safeHtml } from "./safe-html.ts";

/** An open block longer than this is shown in several: no delta costs more than to parse this many characters. */
export const LONGEST_OPEN_BLOCK = 20_000;

/**
 * Renders Markdown into an element while it arrives. Only the last block can still change, so only that is parsed again; the
 * blocks before it are settled. Code is appended without being parsed at all.
 */
export class StreamingMarkdown {
  readonly #element: HTMLElement;
  readonly #parser: MarkdownIt;
  readonly #extras: Extras;
  #source = "";
  /** The source of what isn't settled, and the last node before it. */
  #open = "";
  #settled: ChildNode | null = null;
  /** Definitions of links, which hold for the whole text. */
  #env: Env = {};
  #fence: OpenFence | undefined;

  /** `element` is to have no other children. `extras`: what is to be done with blocks once they are settled. */
  constructor(element: HTMLElement, extras: Extras = NO_EXTRAS) {
    this.#element = element;
    this.#extras = extras;
    this.#parser = markdownParser(extras);
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

  /** No more will come. */
  end(): void {
    this.#fence?.end();
    const open = this.#nodes(this.#parser.parse(this.#open, this.#env));
    let settled = this.#settled;
    if (this.#fence === undefined) this.#show(open);
    if (this.#env.references !== undefined) {
      // What stands before a link's definition was shown without it.
      settled = null;
      patchChildren(this.#element, null, this.#nodes(this.#parser.parse(this.#source, {})));
    }
    this.#finishBehind(settled);
  }

  #take(added: string): void {
    const rest = this.#fence === undefined ? added : this.#fence.append(added);
    if (rest === undefined) return;
    if (this.#fence !== undefined) {
      this.#settled = this.#fence.element;
      finish(this.#fence.element, this.#extras);
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
    const last = this.#parser.parse(lines, this.#copyOfEnv()).findLast(({ level, map }) => level === 0 && map !== null);
    this.#settleTo(offsetOfLine(lines, last?.map?.[0] ?? 0));
  }

  #settleTo(offset: number): void {
    if (offset === 0) return;
    const before = this.#settled;
    const nodes = this.#nodes(this.#parser.parse(this.#open.slice(0, offset), this.#env));
    this.#settled = this.#show(nodes);
    this.#open = this.#open.slice(offset);
    this.#finishBehind(before);
  }

  /** Finishes all that was settled since `before` was the last that is. */
  #finishBehind(before: ChildNode | null): void {
    let node = before === null ? this.#element.firstChild : before.nextSibling;
    for (; node !== null; node = node.nextSibling) if (node instanceof Element) finish(node, this.#extras);
  }

  /** Where an open block that has grown too long is cut: behind a line, if there is one. */
  #cut(): number {
    return this.#open.lastIndexOf("\n", LONGEST_OPEN_BLOCK - 1) + 1 || LONGEST_OPEN_BLOCK;
  }

  #showOpen(): void {
    const opened = OpenFence.at(this.#open, this.#extras.strings);
    if (opened === undefined) {
      this.#show(this.#nodes(this.#parser.parse(withMarksClosed(this.#open), this.#copyOfEnv())));
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
    return [...dress(safeHtml(html), this.#extras.strings).children];
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
