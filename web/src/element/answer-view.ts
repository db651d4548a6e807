import type { ChatPart } from "./chat-client.ts";
import { copyBy } from "./copying.ts";
import type { Extras } from "./extras/extras.ts";
import { button, made } from "./made.ts";
import { COPY_CODE } from "./markdown/code-block.ts";
import type { Offers } from "./offers.ts";
import { PartsView } from "./parts/parts-view.ts";
import type { Strings } from "./strings.ts";

/** One answer in the conversation: its parts, and below them its ending and the reader's choices. */
export class AnswerView {
  readonly element: HTMLElement;
  /** The whole text so far; the screen may show a little less. */
  text = "";
  readonly #parts: PartsView;
  readonly #note = made("p", { class: "note" });
  readonly #copy: HTMLButtonElement;
  readonly #goOn: HTMLButtonElement;
  readonly #retry: HTMLButtonElement;
  readonly #foot: HTMLElement;
  #ended: Promise<void> | undefined;

  /** `onDrawn` is called whenever the answer has grown on the screen; `offers` are the reader's choices at the end. */
  constructor(extras: Extras, onDrawn: () => void, offers: Offers) {
    const { strings } = extras;
    this.#copy = button({ class: "quiet", text: strings.copy, testId: "copy" }, () =>
      copyBy(this.#copy, this.text, strings),
    );
    this.#goOn = button({ class: "quiet", text: strings.goOn, testId: "go-on", hidden: true }, () => offers.goOn());
    this.#retry = button({ class: "quiet", text: strings.retry, testId: "retry", hidden: true }, () => offers.again());
    this.#parts = new PartsView(extras, onDrawn);
    const { element, sources } = this.#parts;
    const inFoot = [this.#note, this.#copy, this.#goOn, this.#retry];
    this.#foot = made("footer", { class: "answer-foot", hidden: true }, ...inFoot);
    const attributes = { "aria-label": strings.answer };
    this.element = made("article", { class: "answer", attributes }, element, sources.element, this.#foot);
    element.addEventListener("click", (event) => copyCode(event, strings));
  }

  /** Whether the answer has no text and no part. */
  get isEmpty(): boolean {
    return this.#parts.isEmpty;
  }

  identify(responseId: string): void {
    this.#parts.element.dataset.responseId = responseId;
  }

  append(text: string): void {
    this.text += text;
    this.#parts.append(text);
  }

  /** Shows a new or grown part other than text. */
  show(position: number, part: ChatPart): void {
    this.#parts.show(position, part);
  }

  /** Keeps only the first `keep` characters and these parts. */
  restart(keep: number, parts?: readonly ChatPart[]): void {
    this.text = this.text.slice(0, keep);
    this.#parts.replace(parts ?? [{ type: "text", text: this.text }]);
  }

  /** Shows an earlier answer at once. */
  restore(text: string, parts: readonly ChatPart[]): void {
    this.text = text;
    this.#parts.replace(parts);
    void this.end();
  }

  /** Ends the answer; resolves once all of it is rendered. */
  end(): Promise<void> {
    this.#ended ??= this.#parts.end();
    return this.#ended;
  }

  /** Shows below the answer how it ended, with these choices. */
  note(note: string, { retry = false, goOn = false }: { readonly retry?: boolean; readonly goOn?: boolean }): void {
    this.#note.textContent = note;
    this.#foot.hidden = false;
    this.#retry.hidden = !retry;
    this.#goOn.hidden = !goOn;
  }

  /** Hides the choices, since another answer follows: only the last one can be asked for again. */
  endOffers(): void {
    this.#retry.hidden = this.#goOn.hidden = true;
  }
}

function copyCode({ target }: Event, strings: Strings): void {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains(COPY_CODE)) return;
  const code = target.closest(".code-block")?.querySelector("code");
  void copyBy(target, code?.textContent ?? "", strings);
}
