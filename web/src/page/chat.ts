import type { Client } from "../client/client.ts";
import { Composer } from "./composer.ts";
import { Exchange } from "./exchange.ts";
import { explain } from "./plain-language.ts";
import { requiredElement } from "./required-element.ts";
import { Suggestions } from "./suggestions.ts";
import type { Views } from "./views.ts";

/** The page at work: passes the reader's questions to the client, and what comes back to the views. */
export class Chat {
  readonly #client: Client;
  readonly #views: Views;
  readonly #composer: Composer;
  readonly #suggestions: Suggestions;
  readonly #welcome = requiredElement("#welcome", HTMLElement);
  #asking = false;

  constructor(client: Client, views: Views) {
    this.#client = client;
    this.#views = views;
    const ask = (question: string): void => void this.#ask(question);
    this.#composer = new Composer({ ask, stop: () => client.stop() });
    this.#suggestions = new Suggestions(requiredElement("#suggestions", HTMLElement), ask);
  }

  /** Opens the connection ahead of the first question, so that its first token comes sooner. */
  async connect(): Promise<void> {
    this.#views.status.show("connecting");
    try {
      const transport = await this.#client.connect();
      if (this.#asking) return;
      this.#views.stats.showTransport(transport);
      this.#views.status.show("idle");
    } catch (error) {
      // The question to come will try again, and say what is wrong if that fails too.
      if (!this.#asking) this.#views.status.show("error", explain(error).what);
    }
  }

  async #ask(question: string): Promise<void> {
    if (this.#asking) return;
    this.#begin(question);
    const exchange = new Exchange(this.#views);
    try {
      for await (const event of this.#client.ask(question)) exchange.show(event);
    } catch (error) {
      const explanation = explain(error);
      exchange.fail(explanation.what);
      this.#views.conversation.addError(explanation, () => void this.#ask(question));
    }
    this.#end();
  }

  #begin(question: string): void {
    this.#asking = true;
    this.#welcome.hidden = true;
    this.#suggestions.remove(question);
    this.#suggestions.setVisible(false);
    this.#composer.setBusy(true);
    this.#views.conversation.addQuestion(question);
  }

  #end(): void {
    const follow = this.#views.conversation.isAtEnd;
    this.#asking = false;
    this.#composer.setBusy(false);
    this.#suggestions.setVisible(true);
    if (follow) this.#views.conversation.scrollToEnd();
  }
}
