import type { AnswerEvent, TransportName } from "../client/answer-events.ts";
import type { Client } from "../client/client.ts";
import type { ChatAnswer, ChatClient, ChatConnection, ChatEvent, ChatTransport } from "../element/chat-client.ts";

/** Today's client, in the shape that the element asks for. */
export class ClientAdapter implements ChatClient {
  readonly resumable = null;
  transport: ChatTransport | null = null;
  connection: ChatConnection = "connecting";
  readonly #client: Client;
  readonly #onConnection = new Set<(state: ChatConnection) => void>();
  readonly #onTransport = new Set<(transport: ChatTransport) => void>();

  /** Opens the connection ahead of the first question, so that its first token comes sooner. */
  constructor(client: Client) {
    this.#client = client;
    client.connect().then(
      (transport) => this.#isOpen(transport),
      // The question to come will try again, and say what is wrong if that fails too.
      () => this.#is("waiting"),
    );
  }

  on(event: "connection", listener: (state: ChatConnection) => void): () => void;
  on(event: "transport", listener: (transport: ChatTransport) => void): () => void;
  on(
    event: "connection" | "transport",
    listener: ((detail: ChatConnection) => void) & ((detail: ChatTransport) => void),
  ) {
    const listeners = event === "connection" ? this.#onConnection : this.#onTransport;
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  ask(question: string): ChatAnswer {
    const events = this.#client.ask(question);
    return {
      question,
      responseId: null,
      stop: () => this.#client.stop(),
      [Symbol.asyncIterator]: () => translated(events),
    };
  }

  #isOpen(transport: TransportName): void {
    this.transport = transport;
    for (const listener of this.#onTransport) listener(transport);
    this.#is("open");
  }

  #is(state: ChatConnection): void {
    this.connection = state;
    for (const listener of this.#onConnection) listener(state);
  }
}

async function* translated(events: AsyncIterable<AnswerEvent>): AsyncGenerator<ChatEvent, void, void> {
  for await (const event of events) {
    if (event.type === "text") yield { ...event, type: "delta" };
    else if (event.type === "restarted") yield { type: "restarted", keep: event.text.length };
    else yield event;
  }
}
