import { made } from "../made.ts";
import type { Strings } from "../strings.ts";

/** What the model has thought, folded: who wants to read it opens it. */
export class ReasoningView {
  readonly #strings: Strings;
  readonly #summary = made("summary");
  readonly #text = made("p");
  readonly element = made("details", { class: "reasoning", testId: "reasoning" }, this.#summary, this.#text);
  readonly #begunAt = performance.now();
  #isOver = false;

  constructor(strings: Strings) {
    this.#strings = strings;
    this.#summary.textContent = `${strings.thinking}…`;
  }

  show(text: string): void {
    this.#text.textContent = text;
  }

  /** The thinking is over, and has taken as long as it was watched. Of what came all at once the time isn't known. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const seconds = Math.round((performance.now() - this.#begunAt) / 1_000);
    const { thoughts, thoughtFor } = this.#strings;
    this.#summary.textContent = seconds === 0 ? thoughts : thoughtFor(seconds);
  }
}
