import { browserScreen } from "../../smoother/screen.ts";
import { SmoothText } from "../../smoother/smooth-text.ts";
import type { Extras } from "../extras/extras.ts";
import { made } from "../made.ts";
import { StreamingMarkdown } from "../markdown/streaming-markdown.ts";

/** Text of an answer: its Markdown, drawn evenly. */
export class TextView {
  /** Its blocks have directions of their own, but for those without a letter. */
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

  /** Adds text to one of which nothing waits to be drawn. */
  appendAtOnce(text: string): void {
    this.#markdown.append(text);
  }

  /** Shows `text` instead, at once. */
  replace(text: string): void {
    this.#smooth.restart();
    this.#markdown.replace(text);
  }

  /** No more will come; resolves once all of it is drawn. */
  end(): Promise<void> {
    this.#ended ??= this.#drawToEnd();
    return this.#ended;
  }

  async #drawToEnd(): Promise<void> {
    await this.#smooth.end();
    await this.#markdown.end();
  }
}
