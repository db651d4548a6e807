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

  override entry(index: number, content: string | object, from?: number): void {
    const frame =
      typeof content === "string"
        ? { type: "chat.response.delta", delta: content }
        : { ...content, type: "chat.response.event" };
    this.frame({ ...frame, response_id: "rsp_1", index, from });
  }

  override ready(): void {}

  override drop(): void {
    if (!this.closedByClient) this.#stream.break();
  }
}
