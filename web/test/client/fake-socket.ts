export type Frame = Record<string, unknown>;

/**
 * Both ends of a WebSocket that never leaves the process: the client holds it, the test plays the server, which speaks
 * `evenflow.v1.compact`.
 */
export class FakeSocket {
  readonly url: string;
  readonly protocols: readonly string[];
  readonly sent: Frame[] = [];
  #closedByClient = false;
  #isReady = false;
  /** Called with each frame that the client sends. */
  onSend: (frame: Frame) => void = () => {};
  readonly #onMessage: ((event: { data: unknown }) => void)[] = [];
  readonly #onClose: ((event: { code: number }) => void)[] = [];

  constructor(url: string, protocols: readonly string[]) {
    this.url = url;
    this.protocols = protocols;
  }

  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { code: number }) => void): void;
  addEventListener(type: "message" | "close", listener: (event: never) => void): void {
    if (type === "message") this.#onMessage.push(listener as (event: { data: unknown }) => void);
    else this.#onClose.push(listener as (event: { code: number }) => void);
  }

  send(data: string): void {
    const frame = JSON.parse(data) as Frame;
    this.sent.push(frame);
    this.onSend(frame);
  }

  close(): void {
    this.#closedByClient = true;
  }

  get closedByClient(): boolean {
    return this.#closedByClient;
  }

  /** It was given up before it was answered. */
  get hangs(): boolean {
    return this.#closedByClient && !this.#isReady;
  }

  /** The server sends `data` as it is. */
  raw(data: unknown): void {
    for (const listener of this.#onMessage) listener({ data });
  }

  frame(frame: unknown): void {
    this.raw(JSON.stringify(frame));
  }

  drop(code = 1006): void {
    for (const listener of this.#onClose) listener({ code });
  }

  ready(messageBytes = 65_536): void {
    this.#isReady = true;
    this.frame({ type: "session.ready", session_id: "ses_1", limits: { message_bytes: messageBytes } });
  }

  /** Accepts the question that the client sent last. */
  start(extra: Frame = {}): void {
    const question = this.sent.filter((frame) => frame.type === "chat.message").at(-1);
    this.frame({
      type: "chat.response.start",
      session_id: "ses_1",
      response_id: "rsp_1",
      message_id: question?.message_id ?? "id-1",
      status: "streaming",
      next_index: 0,
      duplicate: false,
      stream: 0,
      ...extra,
    });
  }

  delta(index: number, delta: string, from?: number): void {
    this.entry(index, delta, from);
  }

  /** Sends text, or what is none. */
  entry(index: number, content: string | object, from?: number): void {
    this.frame(from === undefined ? [0, index, content] : [0, index, content, from]);
  }

  /** Replaces the text after `fromIndex`; from the owner `epoch`. */
  restarted(index: number, fromIndex: number, epoch = 1): void {
    this.frame({
      type: "chat.response.restarted",
      session_id: "ses_1",
      response_id: "rsp_1",
      from_index: fromIndex,
      attempt: 2,
      index,
      epoch,
    });
  }

  completed(lastIndex: number, extra: Frame = {}): void {
    this.frame({
      type: "chat.response.completed",
      session_id: "ses_1",
      response_id: "rsp_1",
      message_id: "id-1",
      finish_reason: "stop",
      last_index: lastIndex,
      usage: { prompt_tokens: 4, completion_tokens: 7 },
      degraded: false,
      ...extra,
    });
  }

  sentOf(type: string): Frame[] {
    return this.sent.filter((frame) => frame.type === type);
  }
}
