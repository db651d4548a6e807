import type { FakeCall } from "./fake-network.ts";

/** The server's end of one event stream. */
export class FakeEventStream {
  readonly query: string;
  readonly bearer: string | null;
  readonly response: Response;
  isAborted = false;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor({ path, bearer, signal }: FakeCall) {
    this.query = path.split("?")[1] ?? "";
    this.bearer = bearer;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
    });
    this.response = new Response(body, { headers: { "Content-Type": "text/event-stream" } });
    signal?.addEventListener("abort", () => {
      this.isAborted = true;
      this.#controller?.error(signal.reason);
    });
  }

  bytes(bytes: Uint8Array): void {
    if (!this.isAborted) this.#controller?.enqueue(bytes);
  }

  text(text: string): void {
    this.bytes(new TextEncoder().encode(text));
  }

  frame(frame: Record<string, unknown>): void {
    this.text(eventOf(frame));
  }

  delta(index: number, delta: string, from?: number): void {
    this.frame({ type: "chat.response.delta", response_id: "rsp_1", delta, index, from });
  }

  completed(lastIndex: number, finishReason = "stop"): void {
    this.frame(completedFrame(lastIndex, finishReason));
  }

  /** The server ends the stream. */
  end(): void {
    this.#controller?.close();
  }

  /** The network does. */
  break(): void {
    this.#controller?.error(new TypeError("network"));
  }
}

/** A frame as an event. */
export function eventOf(frame: Record<string, unknown>): string {
  return `event: ${frame.type}\nid: ${frame.index ?? ""}\ndata: ${JSON.stringify(frame)}\n\n`;
}

export function completedFrame(lastIndex: number, finishReason = "stop"): Record<string, unknown> {
  const type = "chat.response.completed";
  return { type, response_id: "rsp_1", finish_reason: finishReason, last_index: lastIndex, usage: null };
}
