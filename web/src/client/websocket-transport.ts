import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { AnswerReading } from "./answer-reading.ts";
import { delay } from "./delay.ts";
import type { Environment } from "./environment.ts";
import { ConnectionError } from "./errors.ts";
import type { Subprotocol } from "./frames.ts";
import { LIMITS } from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import type { Credentials, Session } from "./session.ts";
import type { Transport } from "./transport.ts";
import { type Arrival, WebSocketConnection } from "./websocket-connection.ts";

/** Answers over a WebSocket, which stays open from one question to the next. */
export class WebSocketTransport implements Transport {
  readonly name = "websocket";
  readonly #session: Session;
  readonly #environment: Environment;
  readonly #subprotocol: Subprotocol;
  #connection: WebSocketConnection | undefined;
  #opening: Promise<WebSocketConnection> | undefined;
  #reading: AnswerReading | undefined;
  /** The last token that has opened a connection. */
  #provenToken: string | undefined;

  constructor(session: Session, environment: Environment, subprotocol: Subprotocol) {
    this.#session = session;
    this.#environment = environment;
    this.#subprotocol = subprotocol;
  }

  /**
   * Resolves when a connection is open; rejects with a {@link ConnectionError} when none could be opened, or not within
   * `patienceMs` milliseconds. An attempt that takes longer goes on, for whoever asks next.
   */
  async connect(patienceMs: number): Promise<WebSocketConnection> {
    if (this.#connection?.isOpen) return this.#connection;
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
    const mailbox = new Mailbox<Arrival>();
    const removeListener = connection.listen({
      onArrival: (arrival) => mailbox.put(arrival),
      onLost: (error) => mailbox.fail(error),
    });
    const abandon = (): void => connection.close("the reader has left");
    answer.abandoned.addEventListener("abort", abandon);
    const reading = new AnswerReading(answer, (frame) => connection.send(frame));
    const acknowledge = (): void => {
      if (connection.isOpen) reading.acknowledge();
    };
    const acknowledging = setInterval(acknowledge, LIMITS.ackIntervalMs);
    this.#reading = reading;
    try {
      reading.request();
      while (!reading.ended) yield* reading.receive(await nextArrival(mailbox, reading, connection));
    } finally {
      this.#reading = undefined;
      clearInterval(acknowledging);
      acknowledge();
      answer.abandoned.removeEventListener("abort", abandon);
      removeListener();
    }
  }

  async cancel(): Promise<void> {
    this.#reading?.cancel();
  }

  async #open(): Promise<WebSocketConnection> {
    const credentials = await this.#session.credentials();
    try {
      return await this.#openWith(credentials);
    } catch (error) {
      // Browsers do not say why a handshake failed. Where this token has opened one before, it may be the token: a
      // server that was restarted with a new key.
      if (!(error instanceof ConnectionError) || credentials.token !== this.#provenToken) throw error;
      return await this.#openWith(await this.#session.replace(credentials.token));
    }
  }

  async #openWith({ token, websocketUrl }: Credentials): Promise<WebSocketConnection> {
    const protocols = [this.#subprotocol, `bearer.${token}`];
    this.#connection = await WebSocketConnection.open(this.#environment, websocketUrl, protocols);
    this.#provenToken = token;
    return this.#connection;
  }
}

/**
 * The next frame. A connection may die without a word (a phone that changes networks), so after a silence the answer is
 * asked for again: whatever comes back proves that the connection lives; if nothing does, it is given up.
 */
async function nextArrival(
  mailbox: Mailbox<Arrival>,
  reading: AnswerReading,
  connection: WebSocketConnection,
): Promise<Arrival> {
  const arrival = await mailbox.take(LIMITS.silenceMs);
  if (arrival !== undefined) return arrival;
  reading.request();
  const reply = await mailbox.take(LIMITS.probeMs);
  if (reply !== undefined) return reply;
  const reason = "the connection went silent";
  connection.close(reason);
  throw new ConnectionError(reason);
}
