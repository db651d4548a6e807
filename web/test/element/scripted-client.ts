import type {
  ChatAnswer,
  ChatClient,
  ChatConnection,
  ChatEvent,
  ChatMessage,
  ChatPage,
  ChatQuestion,
} from "../../src/element/chat-client.ts";

/** An answer of which a test says what happens to it, and when. */
export class ScriptedAnswer implements ChatAnswer {
  readonly question: string;
  readonly messageId: string;
  readonly replaces: string | undefined;
  responseId: string | null = null;
  isStopped = false;
  readonly #events: (ChatEvent | Error)[] = [];
  #wake: () => void = () => {};

  constructor(question: string, messageId = "m1", replaces?: string) {
    this.question = question;
    this.messageId = messageId;
    this.replaces = replaces;
  }

  stop(): void {
    this.isStopped = true;
  }

  tell(...events: (ChatEvent | Error)[]): void {
    this.#events.push(...events);
    this.#wake();
  }

  /** The server has the question. */
  accept(): void {
    this.responseId = `r-${this.messageId}`;
    this.tell({ type: "accepted", responseId: this.responseId });
  }

  say(text: string): void {
    this.tell({ type: "delta", text, from: 0, index: 0 });
  }

  complete(finishReason = "stop"): void {
    this.tell({ type: "completed", finishReason, usage: null, degraded: false });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChatEvent, void, void> {
    for (;;) {
      const event = this.#events.shift();
      if (event instanceof Error) throw event;
      if (event !== undefined) yield event;
      if (event?.type === "completed") return;
      if (event === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** A client whose answers a test makes happen. */
export class ScriptedClient implements ChatClient {
  readonly asked: ScriptedAnswer[] = [];
  readonly resumable: ScriptedAnswer | null;
  readonly transport = null;
  connection: ChatConnection = "open";
  /** Somebody else asks something. */
  tellMessage: (message: ChatQuestion & { readonly replaces: string | null }) => void = () => {};
  isResumed = false;
  /** The messages that the server has, and what was asked of them. */
  said: ChatMessage[] = [];
  readonly followed: ScriptedAnswer[] = [];
  /** How often the reader did not want to wait. */
  reconnects = 0;
  #listener: ((state: ChatConnection) => void) | undefined;

  constructor(resumable: ScriptedAnswer | null = null) {
    this.resumable = resumable;
  }

  ask(question: string, { replaces }: { readonly replaces?: string | undefined } = {}): ScriptedAnswer {
    const answer = new ScriptedAnswer(question, `m${this.asked.length + 1}`, replaces);
    this.asked.push(answer);
    return answer;
  }

  on(event: "connection" | "transport" | "message", listener: (detail: never) => void): () => void {
    if (event === "connection") this.#listener = listener as (state: ChatConnection) => void;
    if (event === "message") this.tellMessage = listener as typeof this.tellMessage;
    return () => {};
  }

  /** Two messages a page. */
  async messages({ before }: { readonly before?: string | undefined } = {}): Promise<ChatPage> {
    const end = before === undefined ? this.said.length : this.said.findIndex(({ messageId }) => messageId === before);
    const start = Math.max(0, end - 2);
    return { messages: this.said.slice(start, end), before: start > 0 ? (this.said[start]?.messageId ?? null) : null };
  }

  follow({ question, messageId }: ChatQuestion): ScriptedAnswer {
    const answer = new ScriptedAnswer(question, messageId);
    this.followed.push(answer);
    return answer;
  }

  reconnect(): void {
    this.reconnects += 1;
  }

  enter(connection: ChatConnection): void {
    this.connection = connection;
    this.#listener?.(connection);
  }

  /** The answer to the last question. */
  get last(): ScriptedAnswer {
    const answer = this.asked.at(-1);
    if (answer === undefined) throw new Error("nothing was asked");
    return answer;
  }
}
