import type { ChatClient } from "./chat-client.ts";
import type { Composer } from "./composer.ts";
import type { Exchange } from "./exchange.ts";
import type { History } from "./history.ts";

/** What the reader types: a question, or another wording of one that was asked. It is kept over a reload. */
export class Editing {
  readonly #composer: Composer;
  readonly #isBusy: () => boolean;
  #client: ChatClient | undefined;
  #history: History | undefined;
  /** The exchange of which the reader changes the question. */
  #edited: Exchange | undefined;
  /** The `messageId` of the one whose edit a reload has interrupted, until that is on the screen again. */
  #interrupted: string | undefined;

  /** `isBusy`: whether an answer is on its way, so that nothing can be edited. */
  constructor(composer: Composer, isBusy: () => boolean) {
    this.#composer = composer;
    this.#isBusy = isBusy;
  }

  /** The exchange on the screen whose question is edited, if one is. */
  get shown(): Exchange | undefined {
    const edited = this.#edited;
    // A message of another tab may have redrawn the conversation.
    const isShown = edited?.questionView.element.isConnected;
    return isShown ? edited : this.#history?.exchangeOf(edited?.messageId ?? "");
  }

  /** Begins with a client: puts what the reader had typed before a reload into the box. */
  begin(client: ChatClient, history: History): void {
    this.#client = client;
    this.#history = history;
    const { draft } = client;
    this.#interrupted = undefined;
    if (!draft || this.#composer.text !== "") return;
    this.#interrupted = draft.replaces;
    this.#composer.text = draft.text;
  }

  /** Puts a question into the box that was asked before, unless an answer is on its way. Returns whether it did. */
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

  /** The edited question is left as it was, or has been asked. */
  end(): void {
    this.#edited = undefined;
  }

  /** Resumes an edit that a reload has interrupted. */
  resume(): void {
    const exchange = this.#history?.exchangeOf(this.#interrupted ?? "");
    this.#interrupted = undefined;
    if (exchange === undefined || this.#edited !== undefined) return;
    const { text } = this.#composer;
    this.#edited = exchange;
    this.#composer.text = "";
    this.#composer.edit(text);
  }

  /** Keeps what is in the box, and which version of the conversation is shown. */
  keep(text: string = this.#composer.text): void {
    if (text === "") this.#interrupted = undefined;
    if (this.#client?.draft === undefined) return;
    const replaces = this.#edited?.messageId ?? this.#interrupted;
    const parent = this.#history?.parent;
    this.#client.draft = text === "" && parent === undefined ? null : { text, replaces, parent };
  }
}
