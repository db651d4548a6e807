import { made } from "../made.ts";
import type { Strings } from "../strings.ts";

/** The model's reasoning, folded. */
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

  /** Ends the reasoning, and shows its duration. The duration is unknown if all of it came at once. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const seconds = Math.round((performance.now() - this.#begunAt) / 1_000);
    const { thoughts, thoughtFor } = this.#strings;
    this.#summary.textContent = seconds === 0 ? thoughts : thoughtFor(seconds);
  }
}
