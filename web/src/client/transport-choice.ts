import { isEvenflowError } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { LongPollTransport } from "./long-poll-transport.ts";
import type { Session } from "./session.ts";
import type { Transport } from "./transport.ts";
import type { WebSocketTransport } from "./websocket-transport.ts";

export interface Choice {
  readonly transport: Transport;
  /** Long-polling because a WebSocket could not be had, rather than because it was asked for. */
  readonly fallback: boolean;
}

/** Decides how the next answer travels: over a WebSocket wherever one can be had, else by long-polling. */
export class TransportChoice {
  readonly polling: LongPollTransport;
  readonly #websocket: WebSocketTransport | undefined;
  readonly #session: Session;
  #patienceMs: number = LIMITS.openPatienceMs;

  /** Without a `websocket` every answer is polled. */
  constructor(session: Session, polling: LongPollTransport, websocket: WebSocketTransport | undefined) {
    this.#session = session;
    this.polling = polling;
    this.#websocket = websocket;
  }

  /** Makes the session if there is none, and opens a connection if need be. Throws when the server cannot be reached. */
  async choose(): Promise<Choice> {
    await this.#session.credentials();
    if (this.#websocket === undefined) return { transport: this.polling, fallback: false };
    try {
      await this.#websocket.connect(this.#patienceMs);
      this.#patienceMs = LIMITS.openPatienceMs;
      return { transport: this.#websocket, fallback: false };
    } catch (error) {
      if (!isEvenflowError(error)) throw error;
      this.#patienceMs = LIMITS.reopenPatienceMs;
      return { transport: this.polling, fallback: true };
    }
  }
}
