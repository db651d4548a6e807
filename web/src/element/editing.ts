import type { ChatClient } from "./chat-client.ts";
import type { Composer } from "./composer.ts";
import type { Exchange } from "./exchange.ts";
import type { History } from "./history.ts";

/** The text in the box: a new question, or the edit of an earlier one. It survives a reload. */
export class Editing {
  readonly #composer: Composer;
  readonly #isBusy: () => boolean;
  #client: ChatClient | undefined;
  #history: History | undefined;
  /** The exchange whose question is being edited. */
  #edited: Exchange | undefined;
  /** The `messageId` whose editing a reload interrupted, until it is on the screen again. */
  #interrupted: string | undefined;

  /** `isBusy`: whether an answer is running, so that nothing can be edited. */
  constructor(composer: Composer, isBusy: () => boolean) {
    this.#composer = composer;
    this.#isBusy = isBusy;
  }

  /** The exchange on the screen whose question is being edited. */
  get shown(): Exchange | undefined {
    const edited = this.#edited;
    // A message of another tab may have redrawn the conversation.
    const isShown = edited?.questionView.element.isConnected;
    return isShown ? edited : this.#history?.exchangeOf(edited?.messageId ?? "");
  }

  /** Starts with a client: restores the text in the box from before a reload. */
  begin(client: ChatClient, history: History): void {
    this.#client = client;
    this.#history = history;
    const { draft } = client;
    this.#interrupted = undefined;
    if (!draft || this.#composer.text !== "") return;
    this.#interrupted = draft.replaces;
    this.#composer.text = draft.text;
  }

  /** Puts an earlier question into the box, unless an answer is running. Returns whether it did. */
  edit(exchange: Exchange): boolean {
    if (this.#isBusy()) return false;
    this.#edited = exchange;
    this.#composer.edit(exchange.question);
    return true;
  }

  /** Puts an edited question that the server has rejected back into the box. */
  editAgain(before: Exchange | undefined, question: string): void {
    if (before === undefined || before.question === question || !this.edit(before)) return;
    this.#composer.text = question;
  }

  /** Ends the edit: the question was sent, or stays unchanged. */
  end(): void {
    this.#edited = undefined;
  }

  /** Resumes editing that a reload interrupted. */
  resume(): void {
    const exchange = this.#history?.exchangeOf(this.#interrupted ?? "");
    this.#interrupted = undefined;
    if (exchange === undefined || this.#edited !== undefined) return;
    const { text } = this.#composer;
    this.#edited = exchange;
    this.#composer.text = "";
    this.#composer.edit(text);
  }

  /** Stores the text in the box, and the version of the conversation on the screen. */
  keep(text: string = this.#composer.text): void {
    if (text === "") this.#interrupted = undefined;
    if (this.#client?.draft === undefined) return;
    const replaces = this.#edited?.messageId ?? this.#interrupted;
    const parent = this.#history?.parent;
    this.#client.draft = text === "" && parent === undefined ? null : { text, replaces, parent };
  }
}
