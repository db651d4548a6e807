import { type Answer, type Client, ConnectionError } from "../client/index.ts";
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
  #answer: Answer | undefined;

  constructor(client: Client, views: Views) {
    this.#client = client;
    this.#views = views;
    const ask = (question: string): void => void this.#ask(question);
    this.#composer = new Composer({ ask, stop: () => void this.#answer?.stop() });
    this.#suggestions = new Suggestions(requiredElement("#suggestions", HTMLElement), ask);
  }

  /** Shows how the connection does while nothing is asked. */
  watch(): void {
    const show = (): void => {
      if (this.#answer !== undefined) return;
      const { transport, connection } = this.#client;
      if (transport !== null) this.#views.stats.showTransport(transport);
      // The question to come will try again, and say what is wrong if that fails too.
      if (connection === "waiting") this.#views.status.show("error", explain(new ConnectionError("")).what);
      else this.#views.status.show(connection === "open" ? "idle" : "connecting");
    };
    show();
    this.#client.on("connection", show);
    this.#client.on("transport", show);
  }

  async #ask(question: string): Promise<void> {
    if (this.#answer !== undefined) return;
    const answer = this.#client.ask(question);
    this.#answer = answer;
    this.#begin(question);
    const exchange = new Exchange(this.#views);
    try {
      for await (const event of answer) exchange.show(event, answer.text);
    } catch (error) {
      const explanation = explain(error);
      exchange.fail(explanation.what);
      this.#views.conversation.addError(explanation, () => void this.#ask(question));
    }
    this.#end();
  }

  #begin(question: string): void {
    this.#welcome.hidden = true;
    this.#suggestions.remove(question);
    this.#suggestions.setVisible(false);
    this.#composer.setBusy(true);
    this.#views.conversation.addQuestion(question);
  }

  #end(): void {
    const follow = this.#views.conversation.isAtEnd;
    this.#answer = undefined;
    this.#composer.setBusy(false);
    this.#suggestions.setVisible(true);
    if (follow) this.#views.conversation.scrollToEnd();
  }
}
