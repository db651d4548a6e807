import { ConnectionError, RefusedError, ReplacedError } from "./errors.ts";
import type { ClientFrame, FrameOf } from "./frames.ts";
import * as LIMITS from "./limits.ts";
import { type Arrival, readFrame, type Streams } from "./read-frame.ts";

/** Who is told what comes over a connection. */
export interface Listener {
  onArrival(arrival: Arrival): void;
  /** The connection is gone; nothing follows. */
  onLost(error: Error): void;
  /**
   * The server is leaving, and the time that it gave this client to move on has come. The connection goes on delivering,
   * and is closed when it is listened to no more.
   */
  onLeave(): void;
}

/** Who is told of a connection whether or not anything is read from it. */
export interface Watcher {
  /** One that was open is gone. */
  onLost(): void;
  /** Another connection of the session has sent a message. */
  onMessage(message: FrameOf<"session.message">): void;
}

const REPLACED = 4009;
const TOO_LARGE = 1009;
export const NOT_OPEN = "the connection is not open";
/** In the words of the HTTP answer. */
const TOO_LARGE_BODY = { type: "invalid_request_error", code: "message_too_large", message: "message_too_large" };

/** One WebSocket, from its opening to its loss. */
export class WebSocketConnection {
  readonly #socket: WebSocket;
  readonly #streams: Streams = new Map();
  #listener: Listener | undefined;
  #loss: Error | undefined;
  readonly #watcher: Watcher;
  #isReady = false;
  /** When the server, which is leaving, wants this client to move on: each client has a slot of its own. */
  #leaveAt: number | undefined;
  #leaveTimer: ReturnType<typeof setTimeout> | undefined;
  #isDoubted = false;

  private constructor(socket: WebSocket, watcher: Watcher) {
    this.#socket = socket;
    this.#watcher = watcher;
    socket.addEventListener("message", (event) => this.#receive(event.data));
    socket.addEventListener("close", (event) => this.#lose(this.#lossFor(event.code)));
  }

  /** Opens a connection, unless `signal` is aborted; resolves when the server has said `session.ready`. Rejects with an `EvenflowError`. */
  static open(url: string, protocols: string[], watcher: Watcher, signal: AbortSignal): Promise<WebSocketConnection> {
    return new Promise((resolve, reject) => {
      const connection = new WebSocketConnection(openSocket(url, protocols), watcher);
      const giveUp = () => connection.close(NOT_OPEN);
      const timer = setTimeout(giveUp, LIMITS.openAttemptMs);
      signal.addEventListener("abort", giveUp);
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", giveUp);
      };
      connection.listen({
        onArrival(arrival) {
          if (arrival.type !== "session.ready") return;
          end();
          connection.unlisten();
          connection.#isReady = true;
          resolve(connection);
        },
        onLost(error) {
          end();
          reject(error);
        },
        onLeave() {},
      });
    });
  }

  get isOpen(): boolean {
    return !this.#loss;
  }

  /** Whether it can be begun with: it is open, nobody doubts that, and its server stays. */
  get isUsable(): boolean {
    return this.isOpen && !this.#isDoubted && this.#leaveAt === undefined;
  }

  /** It may be dead: nothing is begun with it any more. What it still brings counts. */
  doubt(): void {
    this.#isDoubted = true;
  }

  /** Sends a frame; throws the loss when lost. */
  send(frame: ClientFrame): void {
    if (this.#loss) throw this.#loss;
    this.#socket.send(JSON.stringify(frame));
  }

  /** Passes everything that comes from now on to `listener`. */
  listen(listener: Listener): void {
    this.#listener = listener;
    if (this.#loss) listener.onLost(this.#loss);
  }

  /** Ends what {@link listen} began. */
  unlisten(): void {
    this.#listener = undefined;
    if (this.#isDoubted || (this.#leaveAt !== undefined && this.#leaveAt <= Date.now())) this.#leave();
  }

  /** Gives the connection up, without waiting for the other side to agree. */
  close(reason: string): void {
    this.#lose(new ConnectionError(reason));
    this.#socket.close();
  }

  #receive(data: unknown): void {
    if (this.#loss) return;
    const arrival = readFrame(data, this.#streams);
    if (arrival === null) return;
    if (arrival.type === "reconnect") this.#leaveAfter(arrival.after_ms);
    if (arrival.type === "session.message") this.#watcher.onMessage(arrival);
    this.#listener?.onArrival(arrival);
  }

  #leaveAfter(ms: number): void {
    this.#leaveAt = Date.now() + ms;
    clearTimeout(this.#leaveTimer);
    this.#leaveTimer = setTimeout(() => this.#leave(), ms);
  }

  /** What is idle is closed: the next question opens another connection. */
  #leave(): void {
    if (this.#listener) this.#listener.onLeave();
    else this.close("the server is leaving");
  }

  #lossFor(code: number): Error {
    if (code === REPLACED) return new ReplacedError();
    if (code === TOO_LARGE) return new RefusedError(TOO_LARGE_BODY);
    const wait = this.#leaveAt === undefined ? undefined : Math.max(0, this.#leaveAt - Date.now());
    return new ConnectionError(`closed with ${code}`, wait);
  }

  #lose(error: Error): void {
    if (this.#loss) return;
    this.#loss = error;
    clearTimeout(this.#leaveTimer);
    this.#listener?.onLost(error);
    if (this.#isReady) this.#watcher.onLost();
  }
}

function openSocket(url: string, protocols: string[]): WebSocket {
  try {
    return new WebSocket(url, protocols);
  } catch (error) {
    // Browsers throw here for a `ws:` address on an `https:` page.
    throw new ConnectionError(`not reached: ${error}`);
  }
}
