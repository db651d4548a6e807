import { Answer } from "./answer.ts";
import type { AnswerEvent, TransportName } from "./answer-events.ts";
import { Delivery } from "./delivery.ts";
import { browserEnvironment, type Environment } from "./environment.ts";
import { BusyError } from "./errors.ts";
import type { Subprotocol } from "./frames.ts";
import { LongPollTransport } from "./long-poll-transport.ts";
import { Session, type SessionOptions } from "./session.ts";
import { TransportChoice } from "./transport-choice.ts";
import { WebSocketTransport } from "./websocket-transport.ts";

export interface ClientOptions extends SessionOptions {
  /** `auto` (the default): a WebSocket, or long-polling where none can be had. */
  readonly transport?: "auto" | "long-poll";
  /** `evenflow.v1` by default. */
  readonly subprotocol?: Subprotocol;
}

/** A conversation with an Evenflow server: one question at a time, each answer delivered whole and exactly once. */
export class Client {
  readonly #environment: Environment;
  readonly #choice: TransportChoice;
  /** The last message that the server has accepted: the next one must name it. */
  #lastMessageId: string | null = null;
  #current: Delivery | undefined;

  constructor(options: ClientOptions, environment: Environment = browserEnvironment) {
    const session = new Session(options, environment);
    const websocket =
      options.transport === "long-poll"
        ? undefined
        : new WebSocketTransport(session, environment, options.subprotocol ?? "evenflow.v1");
    this.#environment = environment;
    this.#choice = new TransportChoice(session, environment, new LongPollTransport(session, environment), websocket);
  }

  /** Opens the session and the connection ahead of the first question. Throws an `EvenflowError`. */
  async connect(): Promise<TransportName> {
    return (await this.#choice.choose()).transport.name;
  }

  /**
   * Asks a question and yields what happens to it; the last event is `completed`. Lost connections, a busy server and
   * an expired token are dealt with on the way; what is thrown is an `EvenflowError`. Ending the iteration early is to
   * leave: the model goes on for the server's grace period. To stop it, call {@link stop}.
   */
  async *ask(question: string): AsyncGenerator<AnswerEvent, void, void> {
    if (this.#current !== undefined) throw new BusyError();
    const answer = new Answer(this.#environment.newId(), this.#lastMessageId, question);
    this.#current = new Delivery(answer, this.#choice, this.#environment.random);
    try {
      for await (const event of this.#current.run()) {
        if (event.type === "accepted") this.#lastMessageId = event.messageId;
        yield event;
      }
    } finally {
      this.#current = undefined;
    }
  }

  /** Stops the answer that is being delivered, if there is one: `ask` then yields `completed`, as `cancelled`. */
  stop(): void {
    this.#current?.stop();
  }
}
