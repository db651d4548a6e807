/** One answer in the conversation. Its text element holds exactly the response's text, and nothing else. */
export class AnswerView {
  readonly element = document.createElement("article");
  readonly #text = document.createElement("div");
  readonly #note = document.createElement("p");
  #steps = 0;

  constructor() {
    this.element.className = "answer";
    this.element.setAttribute("aria-label", "Answer");
    this.#text.className = "answer-text";
    this.#text.dataset.testid = "answer";
    this.#text.dataset.steps = "0";
    // Whole sentences are spoken by the Announcer instead.
    this.#text.setAttribute("aria-live", "off");
    this.#text.setAttribute("aria-busy", "true");
    this.#note.className = "answer-note";
    this.#note.hidden = true;
    this.element.append(this.#text, this.#note);
  }

  get isEmpty(): boolean {
    return this.#text.textContent === "";
  }

  identify(responseId: string): void {
    this.#text.dataset.responseId = responseId;
  }

  append(text: string): void {
    this.#text.append(document.createTextNode(text));
    this.#steps += 1;
    this.#text.dataset.steps = String(this.#steps);
  }

  replace(text: string): void {
    this.#text.textContent = text;
  }

  /** Marks the answer as ended, with a line below it that says how. */
  end(note: string): void {
    this.#text.setAttribute("aria-busy", "false");
    this.#text.normalize();
    this.#note.textContent = note;
    this.#note.hidden = note === "";
  }
}
