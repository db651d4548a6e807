import type { FakeEventStream } from "./fake-event-stream.ts";
import { FakeSocket } from "./fake-socket.ts";

/** A server's end that writes an event stream instead of a WebSocket: the same frames, but for those that SSE has not. */
export class SimulatedEventSocket extends FakeSocket {
  readonly #stream: FakeEventStream;

  constructor(stream: FakeEventStream) {
    super("", []);
    this.#stream = stream;
  }

  override get closedByClient(): boolean {
    return this.#stream.isAborted;
  }

  override raw(data: unknown): void {
    if (!this.closedByClient) this.#stream.text(`data: ${data}\n\n`);
  }

  override start(): void {}

  override delta(index: number, delta: string, from?: number): void {
    this.frame({ type: "chat.response.delta", response_id: "rsp_1", delta, index, from });
  }

  override ready(): void {}

  override drop(): void {
    if (!this.closedByClient) this.#stream.break();
  }
}
