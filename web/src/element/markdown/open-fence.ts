import type { Strings } from "../strings.ts";
import { appendCode, codeBlock } from "./code-block.ts";
import { languageOf } from "./markdown-parser.ts";

const OPENING = /^(?<marker>`{3,}(?=[^`\n]*\n)|~{3,})(?<info>[^\n]*)\n/;

/** A fence that is still open: text is shown as code, without being parsed, until a line closes it. */
export class OpenFence {
  readonly element: HTMLElement;
  readonly #closing: RegExp;
  readonly #mayClose: RegExp;
  /** The last, incomplete line, and how much of it is shown. */
  #line = "";
  #shown = 0;
  #isFirstLine = true;

  private constructor(marker: string, info: string, strings: Strings) {
    const character = marker.charAt(0);
    this.element = codeBlock(languageOf(info), "", strings);
    this.#closing = new RegExp(`^ {0,3}${character}{${marker.length},}[ \\t]*$`);
    this.#mayClose = new RegExp(`^ {0,3}${character}*[ \\t]*$`);
  }

  /** The fence at the beginning of `source`, and the rest of `source` after its first line. */
  static at(source: string, strings: Strings): { fence: OpenFence; rest: string } | undefined {
    const opening = OPENING.exec(source);
    if (opening?.groups === undefined) return undefined;
    const { marker = "", info = "" } = opening.groups;
    return { fence: new OpenFence(marker, info, strings), rest: source.slice(opening[0].length) };
  }

  /** Adds text. Returns the text after the closing line, once there is one. */
  append(text: string): string | undefined {
    let rest = text;
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      this.#line += rest.slice(0, end);
      rest = rest.slice(end + 1);
      if (this.#closing.test(this.#line)) return rest;
      this.#show();
      [this.#line, this.#shown, this.#isFirstLine] = ["", 0, false];
    }
    this.#line += rest;
    if (!this.#mayClose.test(this.#line)) this.#show();
    return undefined;
  }

  /** Ends the text: an ambiguous last line is shown, unless it closes the fence. */
  end(): void {
    if (this.#line !== "" && !this.#closing.test(this.#line)) this.#show();
  }

  #show(): void {
    const lineBreak = this.#shown === 0 && !this.#isFirstLine ? "\n" : "";
    appendCode(this.element, lineBreak + this.#line.slice(this.#shown));
    this.#shown = this.#line.length;
  }
}
