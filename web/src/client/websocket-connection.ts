import type { Environment, Socket } from "./environment.ts";
import { ConnectionError, ProtocolError, RefusedError, ReplacedError } from "./errors.ts";
import { FrameDecoder } from "./frame-decoder.ts";
import type { ClientFrame, ServerFrame } from "./frames.ts";
import { LIMITS } from "./limits.ts";

/** A frame of the server; `garbled` stands for one that could not be read, and may have been anything. */
export type Arrival = ServerFrame | { readonly type: "garbled" };

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

/** Close codes that mean a mistake of this client's: the same again would end the same. */
const OWN_FAULT: ReadonlySet<number> = new Set([1003, 1007, 1008, 1009]);
const REPLACED = 4009;

/** One WebSocket, from its opening to its loss. */
export class WebSocketConnection {
  readonly #socket: Socket;
  readonly #now: Environment["now"];
  readonly #decoder = new FrameDecoder();
  #listener: Listener | undefined;
  #loss: Error | undefined;
  #largestFrame = Number.POSITIVE_INFINITY;
  /** When the server, which is leaving, wants this client to move on: each client has a slot of its own. */
  #leaveAt: number | undefined;
  #leaveTimer: ReturnType<typeof setTimeout> | undefined;

  private constructor(socket: Socket, now: Environment["now"]) {
    this.#socket = socket;
    this.#now = now;
    socket.addEventListener("message", (event) => this.#receive(event.data));
    socket.addEventListener("close", (event) => this.#lose(this.#lossFor(event.code)));
  }

  /** Opens a connection; resolves when the server has said `session.ready`. Rejects with an `EvenflowError`. */
  static open(environment: Environment, url: string, protocols: string[]): Promise<WebSocketConnection> {
    return new Promise((resolve, reject) => {
      const connection = new WebSocketConnection(openSocket(environment, url, protocols), environment.now);
      const timer = setTimeout(() => connection.close("the WebSocket did not open in time"), LIMITS.openAttemptMs);
      connection.listen({
        onArrival(arrival) {
          if (arrival.type !== "session.ready") return;
          clearTimeout(timer);
          connection.unlisten();
          resolve(connection);
        },
        onLost(error) {
          clearTimeout(timer);
          reject(error);
        },
        onLeave() {},
      });
    });
  }

  get isOpen(): boolean {
    return this.#loss === undefined;
  }

  /** Whether it can be begun with: it is open, and its server stays. */
  get isUsable(): boolean {
    return this.isOpen && this.#leaveAt === undefined;
  }

  /** Sends a frame. Throws {@link RefusedError} for one that is larger than the server takes, and the loss when lost. */
  send(frame: ClientFrame): void {
    if (this.#loss !== undefined) throw this.#loss;
    const data = JSON.stringify(frame);
    if (new TextEncoder().encode(data).length > this.#largestFrame) throw tooLarge(this.#largestFrame);
    this.#socket.send(data);
  }

  /** Passes everything that comes from now on to `listener`. */
  listen(listener: Listener): void {
    this.#listener = listener;
    if (this.#loss !== undefined) listener.onLost(this.#loss);
  }

  /** Ends what {@link listen} began. */
  unlisten(): void {
    this.#listener = undefined;
    if (this.#leaveAt !== undefined && this.#leaveAt <= this.#now()) this.#leave();
  }

  /** Gives the connection up, without waiting for the other side to agree. */
  close(reason: string): void {
    this.#lose(new ConnectionError(reason));
    this.#socket.close();
  }

  #receive(data: unknown): void {
    if (this.#loss !== undefined) return;
    const arrival = this.#decode(data);
    if (arrival === null) return;
    if (arrival.type === "session.ready") this.#largestFrame = arrival.message_bytes;
    if (arrival.type === "reconnect") this.#leaveAfter(arrival.after_ms);
    this.#listener?.onArrival(arrival);
  }

  #decode(data: unknown): Arrival | null {
    try {
      return this.#decoder.decode(data);
    } catch (error) {
      if (error instanceof ProtocolError) return { type: "garbled" };
      throw error;
    }
  }

  #leaveAfter(ms: number): void {
    this.#leaveAt = this.#now() + ms;
    clearTimeout(this.#leaveTimer);
    this.#leaveTimer = setTimeout(() => this.#leave(), ms);
  }

  /** What is idle is closed: the next question opens another connection. */
  #leave(): void {
    if (this.#listener !== undefined) this.#listener.onLeave();
    else this.close("the server is leaving");
  }

  #lossFor(code: number): Error {
    if (code === REPLACED) return new ReplacedError();
    if (OWN_FAULT.has(code)) return new ProtocolError(`the server closed the connection with ${code}`);
    const wait = this.#leaveAt === undefined ? undefined : Math.max(0, this.#leaveAt - this.#now());
    return new ConnectionError(`the connection was closed with ${code}`, wait);
  }

  #lose(error: Error): void {
    if (this.#loss !== undefined) return;
    this.#loss = error;
    clearTimeout(this.#leaveTimer);
    this.#listener?.onLost(error);
  }
}

function openSocket(environment: Environment, url: string, protocols: string[]): Socket {
  try {
    return environment.openSocket(url, protocols);
  } catch (error) {
    // Browsers throw here for a `ws:` address on an `https:` page.
    throw new ConnectionError(`the WebSocket could not be opened: ${error instanceof Error ? error.message : ""}`);
  }
}

function tooLarge(bytes: number): RefusedError {
  return new RefusedError({
    type: "invalid_request_error",
    code: "message_too_large",
    message: `the message is larger than ${bytes} bytes`,
  });
}
