import { browserScreen } from "../../smoother/screen.ts";
import { SmoothText } from "../../smoother/smooth-text.ts";
import type { Extras } from "../extras/extras.ts";
import { made } from "../made.ts";
import { StreamingMarkdown } from "../markdown/streaming-markdown.ts";

/** Text of an answer: its Markdown, rendered at an even speed. */
export class TextView {
  /** Its blocks set their own directions, except for those without a letter. */
  readonly element = made("div", { class: "markdown", attributes: { dir: "ltr" } });
  readonly #markdown: StreamingMarkdown;
  readonly #smooth: SmoothText;
  #ended: Promise<void> | undefined;

  /** `onDrawn` is called whenever it has grown on the screen. */
  constructor(extras: Extras, onDrawn: () => void) {
    this.#markdown = new StreamingMarkdown(this.element, extras, onDrawn);
    this.#smooth = new SmoothText(browserScreen, (text) => {
      this.#markdown.append(text);
      onDrawn();
    });
  }

  append(text: string): void {
    this.#smooth.push(text);
  }

  /** Adds text at once; none may be waiting to be rendered. */
  appendAtOnce(text: string): void {
    this.#markdown.append(text);
  }

  /** Replaces the text, at once. */
  replace(text: string): void {
    this.#smooth.restart();
    this.#markdown.replace(text);
  }

  /** Ends the text; resolves once all of it is rendered. */
  end(): Promise<void> {
    this.#ended ??= this.#drawToEnd();
    return this.#ended;
  }

  async #drawToEnd(): Promise<void> {
    await this.#smooth.end();
    await this.#markdown.end();
  }
}
