import { ConnectionError } from "./errors.ts";
import * as LIMITS from "./limits.ts";
import { NOT_OPEN, type Watcher, WebSocketConnection } from "./websocket-connection.ts";

/** The opening of a WebSocket, which several may wait for. */
export class ConnectionAttempt {
  readonly opening: Promise<WebSocketConnection>;
  readonly #end: AbortController;
  readonly #begunAt = Date.now();
  #isSettled = false;

  private constructor(opening: Promise<WebSocketConnection>, end = new AbortController()) {
    this.#end = end;
    this.opening = opening;
    const settle = () => {
      this.#isSettled = true;
    };
    opening.then(settle, settle);
  }

  /** Begins one; `onOpen` is called before whoever waits for it goes on. */
  static begin(
    url: string,
    protocols: string[],
    watcher: Watcher,
    onOpen: (connection: WebSocketConnection) => void,
  ): ConnectionAttempt {
    const end = new AbortController();
    const opening = WebSocketConnection.open(url, protocols, watcher, end.signal).then((connection) => {
      onOpen(connection);
      return connection;
    });
    return new ConnectionAttempt(opening, end);
  }

  /** One that has succeeded already. */
  static done(connection: WebSocketConnection): ConnectionAttempt {
    const attempt = new ConnectionAttempt((async () => connection)());
    attempt.#isSettled = true;
    return attempt;
  }

  get ageMs(): number {
    return Date.now() - this.#begunAt;
  }

  get isUnderWay(): boolean {
    return !this.#isSettled && !this.#end.signal.aborted;
  }

  /** Why the connection is not open, once the attempt has failed or `patienceMs` have passed; undefined when it is open. */
  async failure(patienceMs: number): Promise<Error | undefined> {
    if (patienceMs <= 0 && !this.#isSettled) return new ConnectionError(NOT_OPEN);
    const late = new Promise<Error>((settle) => {
      setTimeout(() => settle(new ConnectionError(NOT_OPEN)), patienceMs);
    });
    const failure = this.opening.then(
      () => undefined,
      (error: Error) => error,
    );
    return await Promise.race([failure, late]);
  }

  /** What `probe` gives, or `false` as soon as the connection is open or the attempt was given up. */
  async unlessOpen(probe: Promise<boolean>): Promise<boolean> {
    const settled = new Promise<boolean>((settle) => {
      this.#end.signal.addEventListener("abort", () => settle(false));
      this.opening.then(
        () => settle(false),
        () => {},
      );
    });
    return await Promise.race([settled, probe]);
  }

  /** Ends it, and every wait for it. */
  giveUp(): void {
    this.#end.abort();
  }

  /** Ends it if the network may have changed since it began. */
  doubt(): void {
    if (this.isUnderWay && this.ageMs > LIMITS.doubtMs) this.giveUp();
  }
}
