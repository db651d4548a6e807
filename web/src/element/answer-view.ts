import { browserScreen } from "../smoother/screen.ts";
import { SmoothText } from "../smoother/smooth-text.ts";
import { copyBy } from "./copying.ts";
import { button, made } from "./made.ts";
import { COPY_CODE } from "./markdown/code-block.ts";
import { StreamingMarkdown } from "./markdown/streaming-markdown.ts";
import type { Offers } from "./offers.ts";

/** One answer in the conversation: its Markdown, drawn evenly, and below it how it ended and what can be done with it. */
export class AnswerView {
  readonly element: HTMLElement;
  /** All of the text that has come, of which the screen may still show a little less. */
  text = "";
  // Whole sentences are spoken by the Announcer instead.
  readonly #body = made("div", {
    class: "markdown",
    testId: "answer",
    attributes: { "aria-live": "off", "aria-busy": "true", "data-steps": "0" },
  });
  readonly #note = made("p", { class: "note" });
  readonly #copy = button({ class: "quiet", text: "Copy", testId: "copy" }, () => void copyBy(this.#copy, this.text));
  readonly #goOn: HTMLButtonElement;
  readonly #retry: HTMLButtonElement;
  readonly #foot: HTMLElement;
  readonly #markdown = new StreamingMarkdown(this.#body);
  readonly #smooth: SmoothText;
  #steps = 0;
  #ended: Promise<void> | undefined;

  /** `onDrawn` is called whenever the answer has grown on the screen; `offers` may be taken when it has ended. */
  constructor(onDrawn: () => void, offers: Offers) {
    this.#goOn = button({ class: "quiet", text: "Go on", testId: "go-on", hidden: true }, () => offers.goOn());
    this.#retry = button({ class: "quiet", text: "Retry", testId: "retry", hidden: true }, () => offers.again());
    const parts = [this.#note, this.#copy, this.#goOn, this.#retry];
    this.#foot = made("footer", { class: "answer-foot", hidden: true }, ...parts);
    this.element = made("article", { class: "answer", attributes: { "aria-label": "Answer" } }, this.#body, this.#foot);
    this.#body.addEventListener("click", copyCode);
    this.#smooth = new SmoothText(browserScreen, (text) => {
      this.#markdown.append(text);
      this.#steps += 1;
      this.#body.dataset.steps = String(this.#steps);
      onDrawn();
    });
  }

  identify(responseId: string): void {
    this.#body.dataset.responseId = responseId;
  }

  append(text: string): void {
    this.text += text;
    this.#smooth.push(text);
  }

  /** Only the first `keep` characters stand. */
  restart(keep: number): void {
    this.text = this.text.slice(0, keep);
    this.#smooth.restart();
    this.#markdown.replace(this.text);
  }

  /** The answer has ended; resolves once all of it is drawn. */
  end(): Promise<void> {
    this.#ended ??= this.#drawToEnd();
    return this.#ended;
  }

  /** Says below the answer how it ended, and offers these. */
  note(note: string, { retry = false, goOn = false }: { readonly retry?: boolean; readonly goOn?: boolean }): void {
    this.#note.textContent = note;
    this.#foot.hidden = false;
    this.#retry.hidden = !retry;
    this.#goOn.hidden = !goOn;
  }

  /** Another answer follows: only the last one can be asked for again. */
  endOffers(): void {
    this.#retry.hidden = this.#goOn.hidden = true;
  }

  async #drawToEnd(): Promise<void> {
    await this.#smooth.end();
    this.#markdown.end();
    this.#body.setAttribute("aria-busy", "false");
  }
}

function copyCode({ target }: Event): void {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains(COPY_CODE)) return;
  const code = target.closest(".code-block")?.querySelector("code");
  void copyBy(target, code?.textContent ?? "");
}
