import type { ChatTool } from "../chat-client.ts";
import { made } from "../made.ts";
import type { Strings } from "../strings.ts";

/** A tool call of the model, as a card: its name, its arguments as they arrive, and its result. */
export class ToolView {
  readonly #name = made("span", { class: "tool-name" });
  readonly #state = made("span", { class: "tool-state" });
  readonly #strings: Strings;
  readonly #arguments: Field;
  readonly #result: Field;
  readonly element: HTMLElement;
  #isOver = false;
  #tool: ChatTool | undefined;

  constructor(strings: Strings) {
    this.#strings = strings;
    this.#arguments = new Field(strings.toolArguments);
    this.#result = new Field(strings.toolResult);
    this.element = made(
      "details",
      { class: "tool", testId: "tool", attributes: { open: "" } },
      made("summary", {}, this.#name, this.#state),
      this.#arguments.element,
      this.#result.element,
    );
  }

  show(tool: ChatTool): void {
    this.#tool = tool;
    const { name, isComplete, result } = tool;
    this.#name.textContent = name;
    this.#arguments.show(isComplete ? laidOut(tool.arguments) : tool.arguments);
    this.#result.show(result === undefined ? "" : laidOut(result));
    this.#state.textContent = this.#stateOf(tool);
  }

  /** Ends the card, since the answer has ended. */
  end(): void {
    this.#isOver = true;
    if (this.#tool) this.show(this.#tool);
  }

  #stateOf({ isComplete, result }: ChatTool): string {
    if (result !== undefined) return this.#strings.toolDone;
    if (this.#isOver) return this.#strings.toolCalled;
    return isComplete ? this.#strings.toolRunning : this.#strings.toolCalling;
  }
}

/** A text of a tool, under its name; hidden while it is empty. */
class Field {
  readonly #text: HTMLElement;
  readonly element: HTMLElement;

  constructor(name: string) {
    const attributes = { tabindex: "0", role: "group", "aria-label": name };
    this.#text = made("pre", { attributes });
    this.element = made("div", { class: "tool-field", hidden: true }, made("span", { text: name }), this.#text);
  }

  show(text: string): void {
    this.element.hidden = text === "";
    if (this.#text.textContent !== text) this.#text.textContent = text;
  }
}

/** JSON with line breaks, or any other text unchanged. */
function laidOut(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
