import { button, made } from "./made.ts";
import type { Offers } from "./offers.ts";
import type { Strings } from "./strings.ts";

/** One question in the conversation, which can be edited, with a switch between its versions. */
export class QuestionView {
  readonly element: HTMLElement;
  readonly #text: HTMLElement;
  readonly #edit: HTMLButtonElement;
  readonly #switch: HTMLElement;
  readonly #place = made("span", { attributes: { "aria-hidden": "true" } });
  readonly #placeSaid = made("span", { class: "visually-hidden" });
  readonly #earlier: HTMLButtonElement;
  readonly #later: HTMLButtonElement;
  readonly #strings: Strings;
  /** The choices of the attempt that is shown. */
  offers: Offers;
  #versions: readonly string[] = [];
  #index = 0;

  constructor(offers: Offers, strings: Strings) {
    this.offers = offers;
    this.#strings = strings;
    const { yourQuestion, questionNotKept, editQuestion, previousVersion, nextVersion, versions } = strings;
    const attributes = { "aria-label": yourQuestion, "data-not-kept": questionNotKept };
    this.#text = made("article", { class: "question", attributes });
    const select = (step: number) => () => {
      const version = this.#versions[this.#index + step];
      if (version !== undefined) this.offers.select(version);
    };
    const named = (name: string) => ({ "aria-label": name, title: name });
    this.#edit = button({ class: "quiet edit", text: "✎", testId: "edit", attributes: named(editQuestion) }, () =>
      this.offers.edit(),
    );
    this.#earlier = button(
      { class: "quiet", text: "‹", testId: "earlier-version", attributes: named(previousVersion) },
      select(-1),
    );
    this.#later = button(
      { class: "quiet", text: "›", testId: "later-version", attributes: named(nextVersion) },
      select(1),
    );
    this.#switch = made(
      "div",
      { class: "versions", testId: "versions", hidden: true, attributes: { role: "group", "aria-label": versions } },
      ...[this.#earlier, this.#place, this.#placeSaid, this.#later],
    );
    const foot = made("div", { class: "question-foot" }, this.#switch, this.#edit);
    this.element = made("div", { class: "asked" }, this.#text, foot);
  }

  /** Shows a question; `versions` are the ids of its message and of those that replace it or are replaced by it. */
  show(question: string, messageId: string | undefined, versions: readonly string[]): void {
    this.#text.textContent = question;
    this.#edit.hidden = question === "";
    this.#versions = versions;
    this.#index = messageId === undefined ? -1 : versions.indexOf(messageId);
    this.#switch.hidden = versions.length < 2 || this.#index < 0;
    this.#place.textContent = `${this.#index + 1}/${versions.length}`;
    this.#placeSaid.textContent = this.place;
    this.#earlier.disabled = this.#index === 0;
    this.#later.disabled = this.#index === versions.length - 1;
  }

  /** The position among the versions, as a text. */
  get place(): string {
    return this.#strings.versionOf(this.#index + 1, this.#versions.length);
  }

  /** Focuses the button of the switch that the reader used, or the one beside it. */
  focusSwitch(): void {
    const [one, other] = this.#later.disabled ? [this.#earlier, this.#later] : [this.#later, this.#earlier];
    (one.disabled ? other : one).focus({ preventScroll: true });
  }
}
