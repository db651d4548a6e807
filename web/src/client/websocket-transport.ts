import type { AnswerEvent } from "./api.ts";
import { ConnectionError } from "./errors.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Credentials, Session } from "./session.ts";
import type { Transport, Wish } from "./transport.ts";
import { type Watcher, WebSocketConnection } from "./websocket-connection.ts";
import { WebSocketDelivery } from "./websocket-delivery.ts";

/** Answers over a WebSocket, which stays open from one question to the next. */
export class WebSocketTransport implements Transport {
  readonly name = "websocket";
  readonly #session: Session;
  readonly #watcher: Watcher;
  #connection: WebSocketConnection | undefined;
  #opening: Promise<WebSocketConnection> | undefined;
  #delivery: WebSocketDelivery | undefined;
  /** What the connection was opened with: when that has expired, the server takes no more questions there. */
  #token: string | undefined;
  #isClosed = false;

  constructor(session: Session, watcher: Watcher) {
    this.#session = session;
    this.#watcher = watcher;
  }

  get isOpen(): boolean {
    return this.#connection?.isUsable ?? false;
  }

  /**
   * Resolves when a connection is open; rejects with a {@link ConnectionError} when none could be opened, or not within
   * `patienceMs` milliseconds. An attempt that takes longer goes on, for whoever asks next.
   */
  async connect(patienceMs: number): Promise<WebSocketConnection> {
    const credentials = await this.#session.credentials();
    if (this.#connection?.isUsable) {
      if (credentials.token === this.#token) return this.#connection;
      this.#connection.close("expired");
    }
    this.#opening ??= this.#open(credentials).finally(() => {
      this.#opening = undefined;
    });
    const late = new Promise<never>((_, reject) => {
      setTimeout(() => reject(new ConnectionError("the connection is not open")), patienceMs);
    });
    return await Promise.race([this.#opening, late]);
  }

  async *deliver(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    const connection = await this.connect(LIMITS.openPatienceMs);
    inquiry.stopped.throwIfAborted();
    const connectAnew = () => this.connect(LIMITS.openAttemptMs);
    this.#delivery = new WebSocketDelivery(inquiry, connection, connectAnew);
    try {
      yield* this.#delivery.run();
    } finally {
      this.#delivery = undefined;
    }
  }

  async tell(_inquiry: Inquiry, wish: Wish): Promise<void> {
    this.#delivery?.tell(wish);
  }

  /** Gives the connection up for good. */
  close(): void {
    this.#isClosed = true;
    this.leave("the client was closed");
  }

  /** Gives the connection up; the next question opens another one. */
  leave(reason: string): void {
    this.#connection?.close(reason);
  }

  // A browser does not say why a handshake failed. It may be that the token is not accepted any more; then the first poll
  // finds out. A new one for every refusal would be a second storm where many are refused for coming back together.
  async #open({ token, websocketUrl }: Credentials): Promise<WebSocketConnection> {
    const protocols = ["evenflow.v1.compact", "evenflow.v1", `bearer.${token}`];
    this.#connection = await WebSocketConnection.open(websocketUrl, protocols, this.#watcher);
    this.#token = token;
    if (this.#isClosed) this.close();
    return this.#connection;
  }
}
