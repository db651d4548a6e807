import type {
  ChatAnswer,
  ChatClient,
  ChatConnection,
  ChatDraft,
  ChatEvent,
  ChatMessage,
  ChatPage,
  ChatQuestion,
  OtherQuestion,
} from "../../src/element/chat-client.ts";

type AskOptions = NonNullable<Parameters<ChatClient["ask"]>[1]>;
type PageOptions = NonNullable<Parameters<NonNullable<ChatClient["messages"]>>[0]>;

/** An answer of which a test says what happens to it, and when. */
export class ScriptedAnswer implements ChatAnswer {
  readonly question: string;
  readonly messageId: string;
  readonly replaces: string | undefined;
  readonly parent: string | undefined;
  responseId: string | null = null;
  isStopped = false;
  readonly #events: (ChatEvent | Error)[] = [];
  #wake: () => void = () => {};

  constructor(question: string, messageId = "m1", replaces?: string, parent?: string) {
    this.question = question;
    this.messageId = messageId;
    this.replaces = replaces;
    this.parent = parent;
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
  tellMessage: (message: OtherQuestion) => void = () => {};
  /** The ids of its messages begin with this. */
  prefix = "m";
  draft: ChatDraft | null = null;
  /** The messages of other versions, each under those that lead there. */
  readonly versions = new Map<string, ChatMessage[]>();
  isResumed = false;
  /** The messages that the server has, and what was asked of them. */
  said: ChatMessage[] = [];
  readonly followed: ScriptedAnswer[] = [];
  /** How often they were read, and why they can't be, if they can't. */
  reads = 0;
  failure: Error | undefined;
  /** How often the reader did not want to wait. */
  reconnects = 0;
  readonly #listeners = new Set<(state: ChatConnection) => void>();

  constructor(resumable: ScriptedAnswer | null = null) {
    this.resumable = resumable;
  }

  ask(question: string, { replaces, parent }: AskOptions = {}): ScriptedAnswer {
    const answer = new ScriptedAnswer(question, `${this.prefix}${this.asked.length + 1}`, replaces, parent);
    this.asked.push(answer);
    return answer;
  }

  on(event: "connection" | "transport" | "message", listener: (detail: never) => void): () => void {
    if (event === "message") this.tellMessage = listener as typeof this.tellMessage;
    if (event !== "connection") return () => {};
    this.#listeners.add(listener as (state: ChatConnection) => void);
    return () => this.#listeners.delete(listener as (state: ChatConnection) => void);
  }

  /** Two messages a page. */
  async messages({ before, through = "" }: PageOptions = {}): Promise<ChatPage> {
    this.reads += 1;
    if (this.failure !== undefined) throw this.failure;
    const said = this.versions.get(through) ?? this.said;
    const end = before === undefined ? said.length : said.findIndex(({ messageId }) => messageId === before);
    const start = Math.max(0, end - 2);
    return { messages: said.slice(start, end), before: start > 0 ? (said[start]?.messageId ?? null) : null };
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
    for (const listener of this.#listeners) listener(connection);
  }

  /** The answer to the last question. */
  get last(): ScriptedAnswer {
    const answer = this.asked.at(-1);
    if (answer === undefined) throw new Error("nothing was asked");
    return answer;
  }
}
