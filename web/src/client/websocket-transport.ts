import type { AnswerEvent } from "./api.ts";
import { ConnectionError } from "./errors.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Session } from "./session.ts";
import { BlockedError, type Transport, type Wish } from "./transport.ts";
import { ConnectionAttempt } from "./websocket-attempt.ts";
import { NOT_OPEN, type Watcher, type WebSocketConnection } from "./websocket-connection.ts";
import { WebSocketDelivery } from "./websocket-delivery.ts";

/** Answers over a WebSocket, which stays open from one question to the next. */
export class WebSocketTransport implements Transport {
  readonly name = "websocket";
  readonly #session: Session;
  readonly #watcher: Watcher;
  #connection: WebSocketConnection | undefined;
  #attempt: ConnectionAttempt | undefined;
  #delivery: WebSocketDelivery | undefined;
  /** What the connection was opened with: when that has expired, the server takes no more questions there. */
  #token: string | undefined;
  /** Deliveries in a row that brought nothing, and those of them whose connection fell silent. */
  #failures = 0;
  #silences = 0;
  /** The handshakes that were not answered. */
  readonly #unanswered = new Set<ConnectionAttempt>();
  /** The probe that comes before the next handshake. */
  #probe = new AbortController();
  #isWoken = false;
  #isClosed = false;

  constructor(session: Session, watcher: Watcher) {
    this.#session = session;
    this.#watcher = watcher;
  }

  get isOpen(): boolean {
    return this.#connection?.isUsable ?? false;
  }

  async connect(patienceMs: number): Promise<WebSocketConnection> {
    const attempt = await this.#begun();
    return await this.#openedBy(attempt, await attempt.failure(Math.max(0, patienceMs - attempt.ageMs)));
  }

  async connectOrProbe(aloneMs: number): Promise<WebSocketConnection> {
    const attempt = await this.#begun();
    let failure = await attempt.failure(aloneMs);
    if (failure) {
      const isReached = await attempt.unlessOpen(this.#session.isReached());
      failure = await attempt.failure(isReached ? Math.max(0, LIMITS.reopenPatienceMs - aloneMs) : 0);
      // If HTTP gets through, the attempt goes on for the next question.
      if (isReached && failure instanceof ConnectionError) throw new BlockedError(failure.message);
    }
    return await this.#openedBy(attempt, failure);
  }

  async *deliver(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    this.#failures += 1;
    const isDoubtful = this.#failures >= LIMITS.websocketFailures;
    const connection = await (isDoubtful ? this.connectOrProbe(0) : this.connect(this.#session.patienceMs));
    inquiry.stopped.throwIfAborted();
    const begun = inquiry.log.lastIndex;
    const connectAnew = () => this.connect(this.#session.patienceMs);
    const delivery = new WebSocketDelivery(inquiry, connection, connectAnew, LIMITS.pongMs * 2 ** this.#silences);
    this.#delivery = delivery;
    try {
      yield* delivery.run();
      this.#failures = 0;
    } catch (error) {
      if (!(error instanceof ConnectionError)) this.#failures = 0;
      const isFruitless = isDoubtful && inquiry.log.lastIndex === begun && !inquiry.stopped.aborted;
      if (isFruitless && error instanceof ConnectionError && (await this.#session.isReached())) {
        throw new BlockedError(error.message);
      }
      throw error;
    } finally {
      this.#delivery = undefined;
      const hasGrown = inquiry.log.lastIndex > begun;
      if (hasGrown) this.#failures = 0;
      this.#silences = delivery.isSilent && !hasGrown ? Math.min(this.#silences + 1, LIMITS.pongDoublings) : 0;
    }
  }

  async tell(_inquiry: Inquiry, wish: Wish): Promise<void> {
    this.#delivery?.tell(wish);
  }

  doubt(): void {
    this.#probe.abort();
    this.#isWoken = true;
    this.#attempt?.doubt();
    this.#delivery?.doubt();
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

  async #openedBy(attempt: ConnectionAttempt, failure: Error | undefined): Promise<WebSocketConnection> {
    if (!failure) return await attempt.opening;
    // An attempt with lost packets would succeed late, so the next try is a fresh one.
    attempt.giveUp();
    throw failure;
  }

  /** The attempt under way, or a new one. An open connection counts as one that has succeeded. */
  async #begun(): Promise<ConnectionAttempt> {
    await this.#checkForRoom();
    const { token, socketUrl } = await this.#session.credentials();
    if (this.#connection?.isUsable) {
      if (token === this.#token) return ConnectionAttempt.done(this.#connection);
      this.#connection.close("expired");
    }
    if (this.#attempt?.isUnderWay) return this.#attempt;
    // A browser does not say why a handshake failed. It may be that the token is not accepted any more; then the first probe
    // or poll finds out. A new one for every refusal would be a second storm where many are refused for coming back together.
    const protocols = ["evenflow.v1.compact", "evenflow.v1", `bearer.${token}`];
    const attempt = ConnectionAttempt.begin(socketUrl, protocols, this.#watcher, (connection) => {
      this.#connection = connection;
      this.#token = token;
      if (this.#isClosed) this.close();
    });
    this.#unanswered.add(attempt);
    const forget = () => this.#unanswered.delete(attempt);
    attempt.opening.then(forget, ({ message }: Error) => message !== NOT_OPEN && forget());
    this.#attempt = attempt;
    return attempt;
  }

  /**
   * Firefox keeps the connection of an abandoned handshake until it is answered, or for five minutes. It has six for a
   * host, so a few such handshakes would leave none. After two of them, or three with a wake-up, an HTTP call checks
   * first whether the server can be reached: abandoned calls leave no connection. If it can, and handshakes hang
   * nevertheless, they are blocked.
   */
  async #checkForRoom(): Promise<void> {
    if (this.#connection?.isUsable || this.#attempt?.isUnderWay) return;
    for (const attempt of this.#unanswered) {
      if (attempt.ageMs > LIMITS.hungHandshakeMs) this.#unanswered.delete(attempt);
    }
    const free = LIMITS.hungHandshakes + Number(this.#isWoken);
    this.#isWoken = false;
    if (this.#unanswered.size < free) return;
    this.#probe = new AbortController();
    if (!(await this.#session.isReached(this.#probe.signal))) throw new ConnectionError(NOT_OPEN);
    if (this.#unanswered.size >= LIMITS.mostHungHandshakes) throw new BlockedError(NOT_OPEN);
  }
}
