import { backoffMs } from "./backoff.ts";
import type { Environment } from "./environment.ts";
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

/** Decides how an answer travels: over a WebSocket wherever one can be had, else by long-polling. */
export class TransportChoice {
  readonly polling: LongPollTransport;
  readonly #websocket: WebSocketTransport | undefined;
  readonly #session: Session;
  readonly #environment: Environment;
  #patienceMs: number = LIMITS.openPatienceMs;
  /** Times in a row that no WebSocket could be had, and from when on another one may be tried between two polls. */
  #failures = 0;
  #climbAt = 0;

  /** Without a `websocket` every answer is polled. */
  constructor(
    session: Session,
    environment: Environment,
    polling: LongPollTransport,
    websocket: WebSocketTransport | undefined,
  ) {
    this.#session = session;
    this.#environment = environment;
    this.polling = polling;
    this.#websocket = websocket;
  }

  /** Makes the session if there is none, and opens a connection if need be. Throws when the server cannot be reached. */
  async choose(): Promise<Choice> {
    await this.#session.credentials();
    if (this.#websocket === undefined) return { transport: this.polling, fallback: false };
    try {
      await this.#open(this.#websocket, this.#patienceMs);
      return { transport: this.#websocket, fallback: false };
    } catch (error) {
      if (!isEvenflowError(error)) throw error;
      this.#patienceMs = LIMITS.reopenPatienceMs;
      return this.fallBack();
    }
  }

  /** The choice for an answer that loses one WebSocket after the other. */
  fallBack(): Choice {
    this.#failures += 1;
    this.#climbAt = this.#environment.now() + backoffMs(this.#failures, this.#environment.random);
    return { transport: this.polling, fallback: true };
  }

  /**
   * The choice between two polls: the WebSocket, if there is one by now. A call may try for one, at growing intervals: a
   * storm of returning clients, in which handshakes are refused, leaves nobody on long-polling.
   */
  climb(): Choice | undefined {
    const websocket = this.#websocket;
    if (websocket?.isOpen) return { transport: websocket, fallback: false };
    if (websocket !== undefined && this.#environment.now() >= this.#climbAt) {
      this.#climbAt = Number.POSITIVE_INFINITY;
      this.#open(websocket, LIMITS.openAttemptMs).catch(() => this.fallBack());
    }
    return undefined;
  }

  async #open(websocket: WebSocketTransport, patienceMs: number): Promise<void> {
    await websocket.connect(patienceMs);
    this.#patienceMs = LIMITS.openPatienceMs;
    this.#failures = this.#climbAt = 0;
  }
}
