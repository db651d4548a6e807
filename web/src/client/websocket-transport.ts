import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { delay } from "./delay.ts";
import type { Environment } from "./environment.ts";
import { ConnectionError } from "./errors.ts";
import type { Subprotocol } from "./frames.ts";
import { LIMITS } from "./limits.ts";
import type { Session } from "./session.ts";
import type { Transport } from "./transport.ts";
import { WebSocketConnection } from "./websocket-connection.ts";
import { WebSocketDelivery } from "./websocket-delivery.ts";

/** Answers over a WebSocket, which stays open from one question to the next. */
export class WebSocketTransport implements Transport {
  readonly name = "websocket";
  readonly #session: Session;
  readonly #environment: Environment;
  readonly #subprotocol: Subprotocol;
  #connection: WebSocketConnection | undefined;
  #opening: Promise<WebSocketConnection> | undefined;
  #delivery: WebSocketDelivery | undefined;

  constructor(session: Session, environment: Environment, subprotocol: Subprotocol) {
    this.#session = session;
    this.#environment = environment;
    this.#subprotocol = subprotocol;
  }

  get isOpen(): boolean {
    return this.#connection?.isUsable ?? false;
  }

  /**
   * Resolves when a connection is open; rejects with a {@link ConnectionError} when none could be opened, or not within
   * `patienceMs` milliseconds. An attempt that takes longer goes on, for whoever asks next.
   */
  async connect(patienceMs: number): Promise<WebSocketConnection> {
    if (this.#connection?.isUsable) return this.#connection;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    const waiting = new AbortController();
    const impatience = delay(patienceMs, waiting.signal).then(() => {
      throw new ConnectionError("the WebSocket did not open in time");
    });
    // Both lose the race quietly: the attempt when it fails late, the waiting when it is ended below.
    impatience.catch(() => {});
    this.#opening.catch(() => {});
    return await Promise.race([this.#opening, impatience]).finally(() => waiting.abort());
  }

  async *deliver(answer: Answer): AsyncGenerator<AnswerEvent, void, void> {
    const connection = await this.connect(LIMITS.openPatienceMs);
    answer.stopped.throwIfAborted();
    const connectAnew = () => this.connect(LIMITS.openAttemptMs);
    this.#delivery = new WebSocketDelivery(answer, connection, connectAnew, this.#environment.random);
    try {
      yield* this.#delivery.run();
    } finally {
      this.#delivery = undefined;
    }
  }

  async cancel(): Promise<void> {
    this.#delivery?.cancel();
  }

  // A browser does not say why a handshake failed. It may be that the token is not accepted any more; then the first poll
  // finds out. A new one for every refusal would be a second storm where many are refused for coming back together.
  async #open(): Promise<WebSocketConnection> {
    const { token, websocketUrl } = await this.#session.credentials();
    const protocols = [this.#subprotocol, `bearer.${token}`];
    this.#connection = await WebSocketConnection.open(this.#environment, websocketUrl, protocols);
    return this.#connection;
  }
}
