import type { Env, MarkdownIt, Token } from "markdown-it";
import { type Extras, NO_EXTRAS } from "../extras/extras.ts";
import { Finisher } from "../extras/finisher.ts";
import { made } from "../made.ts";
import type { Strings } from "../strings.ts";
import { dress } from "./dress.ts";
import { followFootnote, undressReferences } from "./footnotes.ts";
import { Images } from "./images.ts";
import { openEnv } from "./inline-context.ts";
import { markdownParser } from "./markdown-parser.ts";
import { decided } from "./open-end.ts";
import { OpenFence } from "./open-fence.ts";
import { patchChildren } from "./patch.ts";
import { rendered } from "./rendered.ts";
import type { Work } from "./work.ts";

/** The longest open block in characters. A longer one is split, so no delta costs more than to parse this length. */
export const LONGEST_OPEN_BLOCK = 20_000;
/** The most nodes of an open block, estimated from its marks. A larger one is split, too. */
const MOST_NODES = 1_000;
const MARK = /[[$`*|\n]/g;
const NODES_PER_MARK: Readonly<Record<string, number>> = {
  "[": 1,
  $: 1 / 2,
  "`": 1 / 2,
  "*": 1 / 4,
  "|": 1 / 4,
  "\n": 1 / 4,
};
/** The most elements of an answer; the rest is plain text. The browser looks at all elements after each change. */
const MOST_ELEMENTS = 10_000;
/** Milliseconds of work before yielding to the browser. */
const SLICE_MS = 8;
/** The most characters that are added in one step. */
const PIECE = 2_048;
/** The token of a link's definition, which shows nothing. */
const DEFINITION = "reference_definition";
/** The end of a text whose last paragraph is complete. */
const BLANK_LINE = /\n[ \t]*\n[ \t]*$/;

/** Source that is settled: it is final, and never parsed again. `last` is the last of its nodes. */
interface Settled {
  /** Empty if it can't have a link. */
  readonly source: string;
  /** The number of link definitions when it was settled. */
  readonly definedLinks: number;
  last: ChildNode | null;
}

/**
 * Renders Markdown into an element while it arrives. Only the last block can still change, so only that is parsed
 * again; the blocks before it are settled. Code is appended without being parsed. A short text is shown at once, a long
 * one in slices, between which the browser can respond.
 */
export class StreamingMarkdown {
  readonly #element: HTMLElement;
  readonly #parser: MarkdownIt;
  readonly #images: Images;
  readonly #finisher: Finisher;
  readonly #strings: Strings;
  readonly #onDrawn: () => void;
  #source = "";
  /** The end of the source that is not added yet. */
  #waiting = "";
  /** The source that isn't settled, and the last node before it. */
  #open = "";
  #settled: ChildNode | null = null;
  #pieces: Settled[] = [];
  /** Link definitions, which apply to the whole text. */
  #env: Env = {};
  #fence: OpenFence | undefined;
  #elements = 0;
  /** The last element of plain text, if the answer has too many elements. */
  #plain: HTMLElement | undefined;
  #work: Work | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Resolves the promise of {@link end}, when all is rendered. */
  #resolveEnd: (() => void) | undefined;

  /**
   * `element` must have no other children. `extras`: options for settled blocks; `onDrawn` is called after each later
   * change on the screen.
   */
  constructor(element: HTMLElement, extras: Extras = NO_EXTRAS, onDrawn: () => void = () => {}) {
    this.#element = element;
    this.#parser = markdownParser(extras);
    this.#images = new Images(extras.images, extras.strings);
    this.#strings = extras.strings;
    this.#onDrawn = onDrawn;
    this.#finisher = new Finisher(extras, onDrawn);
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

  /** The whole source so far. */
  get source(): string {
    return this.#source;
  }

  /** Appends `text` to the source. */
  append(text: string): void {
    const added = text.replaceAll("\r", "").replaceAll("\0", "\ufffd");
    this.#source += added;
    this.#waiting += added;
    this.#runSlice();
  }

  /** Replaces the source with `text`. */
  replace(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    [this.#source, this.#waiting, this.#open, this.#settled] = ["", "", "", null];
    [this.#env, this.#fence, this.#pieces, this.#work] = [{}, undefined, [], undefined];
    [this.#elements, this.#plain] = [0, undefined];
    this.#element.replaceChildren();
    this.append(text);
  }

  /** Ends the source. Resolves once all of it is rendered, except for the extras. */
  end(): Promise<void> {
    const drawn = new Promise<void>((resolve) => {
      this.#resolveEnd = resolve;
    });
    this.#runSlice();
    return drawn;
  }

  /** Resolves once the extras of all rendered blocks are rendered. */
  get finished(): Promise<void> {
    return this.#finisher.done;
  }

  /** Works for a slice. The rest continues after the browser has had time. */
  #runSlice(): void {
    if (this.#timer !== undefined) return;
    const until = performance.now() + SLICE_MS;
    this.#work ??= this.#steps();
    for (let step = this.#work.next(); !step.done; step = this.#work.next()) {
      if (step.value !== true && performance.now() < until) continue;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#runSlice();
        if (this.#work === undefined) this.#onDrawn();
      });
      return;
    }
    this.#work = undefined;
  }

  *#steps(): Work {
    do {
      while (this.#waiting !== "") {
        const piece = this.#waiting.slice(0, PIECE);
        this.#waiting = this.#waiting.slice(PIECE);
        yield* this.#add(piece);
        if (this.#waiting !== "") yield this.#plain !== undefined;
      }
      if (this.#fence === undefined && this.#plain === undefined) yield* this.#showOpen();
    } while (this.#waiting !== "");
    if (this.#resolveEnd !== undefined) yield* this.#close();
    this.#resolveEnd?.();
    this.#resolveEnd = undefined;
  }

  *#close(): Work {
    this.#fence?.end();
    const open = yield* this.#nodes(this.#parser.parse(this.#open, this.#env));
    if (this.#fence === undefined && this.#plain === undefined) yield* this.#show(open);
    this.#finish(this.#settled, this.#element.lastChild);
    yield* this.#linkSettled();
    yield* undressReferences(this.#element);
  }

  *#add(added: string): Work {
    if (this.#plain !== undefined) {
      this.#showPlainly(added);
      return;
    }
    let rest = this.#fence === undefined ? added : this.#fence.append(added);
    while (rest !== undefined) {
      if (this.#fence !== undefined) this.#settleFence(this.#fence.element);
      this.#open += rest;
      if (rest.includes("\n")) yield* this.#settle();
      for (let cut = this.#cut(); cut > 0; cut = this.#cut()) yield* this.#settleTo(cut);
      if (this.#elements > MOST_ELEMENTS) {
        yield* this.#show([]);
        this.#showPlainly(this.#open);
        this.#open = "";
        return;
      }
      rest = yield* this.#openFence();
    }
  }

  /** Settles every block but the last. A line belongs to a block only once it is complete. */
  *#settle(): Work {
    const lines = this.#open.slice(0, this.#open.lastIndexOf("\n") + 1);
    const blocks: Token[] = [];
    this.#parser.block.parse(lines, this.#parser, this.#copyOfEnv(), blocks);
    const last = blocks.reverse().find(({ type, level, map }) => level === 0 && map !== null && type !== DEFINITION);
    yield* this.#settleTo(offsetOfLine(lines, last?.map?.[0] ?? 0));
  }

  *#settleTo(offset: number): Work {
    if (offset === 0) return;
    const [source, before] = [this.#open.slice(0, offset), this.#settled];
    const nodes = yield* this.#nodes(this.#parser.parse(source, this.#env));
    for (const node of nodes) this.#elements += node.getElementsByTagName("*").length + 1;
    this.#settled = yield* patchChildren(this.#element, before, nodes, true); // the rest is shown next
    this.#open = this.#open.slice(offset);
    this.#pieces.push({
      source: source.includes("[") ? source : "",
      definedLinks: this.#definedLinks,
      last: nodes.length > 0 ? this.#settled : null,
    });
    this.#finish(before, this.#settled);
  }

  #settleFence(fence: HTMLElement): void {
    this.#settled = fence;
    this.#elements += fence.getElementsByTagName("*").length;
    this.#pieces.push({ source: "", definedLinks: 0, last: fence });
    this.#finisher.finish(fence);
    this.#fence = undefined;
  }

  /** Renders links in text that was settled before they were defined. */
  *#linkSettled(): Work {
    const definedLinks = this.#definedLinks;
    let before: ChildNode | null = null;
    for (const piece of this.#pieces) {
      if (piece.source !== "" && piece.definedLinks < definedLinks && this.#elements < MOST_ELEMENTS) {
        const nodes: Element[] = yield* this.#nodes(this.#parser.parse(piece.source, this.#env));
        for (const node of nodes) this.#elements += node.getElementsByTagName("*").length;
        const last: ChildNode | null = yield* patchChildren(this.#element, before, nodes, true);
        if (piece.last !== null) piece.last = last;
        this.#finish(before, last);
        yield;
      }
      before = piece.last ?? before;
    }
  }

  /** Finishes the blocks after `before`, up to `last`. */
  #finish(before: ChildNode | null, last: ChildNode | null): void {
    let node = before;
    while (node !== last) {
      node = node === null ? this.#element.firstChild : node.nextSibling;
      if (node instanceof Element) this.#finisher.finish(node);
    }
  }

  /** Where to split an open block that is too long: after a line, if there is one. 0: nowhere. */
  #cut(): number {
    const longest = Math.min(LONGEST_OPEN_BLOCK, endOfMarks(this.#open));
    if (this.#open.length <= longest) return 0;
    return this.#open.lastIndexOf("\n", longest - 1) + 1 || longest;
  }

  /** Opens the fence at the beginning of the open source. Returns the text after it, if it is closed already. */
  *#openFence(): Work<string | undefined> {
    const opened = OpenFence.at(this.#open, this.#strings);
    if (opened === undefined) return undefined;
    this.#open = "";
    yield* this.#show([]);
    this.#fence = opened.fence;
    this.#element.append(opened.fence.element);
    return opened.fence.append(opened.rest);
  }

  /** Appends to the plain text, in elements that the browser lays out one by one. */
  #showPlainly(text: string): void {
    for (let start = 0; start < text.length; start += PIECE) {
      if (this.#plain === undefined || (this.#plain.textContent ?? "").length >= PIECE) {
        this.#plain = made("div", { class: "plain" });
        this.#element.append(this.#plain);
      }
      this.#plain.append(text.slice(start, start + PIECE));
    }
  }

  *#showOpen(): Work {
    const source = decided(this.#open);
    const known = this.#copyOfEnv();
    const env = BLANK_LINE.test(source.slice(-100)) ? known : openEnv(known);
    yield* this.#show(yield* this.#nodes(this.#parser.parse(source, env)));
  }

  *#show(nodes: readonly ChildNode[]): Work {
    yield* patchChildren(this.#element, this.#settled, nodes);
  }

  *#nodes(tokens: Token[]): Work<Element[]> {
    const fragment = yield* rendered(this.#parser, tokens, this.#env);
    yield* dress(fragment, this.#strings, this.#images);
    return [...fragment.children];
  }

  /** The number of link definitions. */
  get #definedLinks(): number {
    return Object.keys(this.#env.references ?? {}).length;
  }

  /** A definition that is still arriving must not be remembered. */
  #copyOfEnv(): Env {
    return this.#env.references === undefined ? {} : { references: { ...this.#env.references } };
  }
}

/** The end of the last mark that a block may have; the length of the source if it may have all. */
function endOfMarks(source: string): number {
  let nodes = 0;
  for (const { 0: mark, index } of source.matchAll(MARK)) {
    nodes += NODES_PER_MARK[mark] ?? 0;
    if (nodes >= MOST_NODES) return index + 1;
  }
  return source.length;
}

function offsetOfLine(text: string, line: number): number {
  let offset = 0;
  for (let passed = 0; passed < line; passed += 1) offset = text.indexOf("\n", offset) + 1;
  return offset;
}
