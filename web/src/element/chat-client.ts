/** What the element needs of a client; `connect()` of `@evenflow/client` gives one. */
export interface ChatClient {
  /**
   * `replaces`: the `messageId` of a message that this one replaces, in a new version of the conversation. `parent`:
   * that of the last message of an older version, to continue that.
   */
  ask(
    question: string,
    options?: { readonly replaces?: string | undefined; readonly parent?: string | undefined },
  ): ChatAnswer;
  /** The answer that a reload of the page has interrupted. */
  readonly resumable: ChatAnswer | null;
  readonly transport: ChatTransport | null;
  readonly connection: ChatConnection;
  /** Whether something may have been asked before this page was loaded: then that is read by `messages`. */
  readonly isResumed?: boolean;
  /** The newest messages of the conversation, or those before one of them; `through`: of the version that has this message. */
  messages?(options?: {
    readonly before?: string | undefined;
    readonly through?: string | undefined;
  }): Promise<ChatPage>;
  /** What the reader has typed and not asked yet, and which version of the conversation they read, kept over a reload. */
  draft?: ChatDraft | null;
  /** Tries at once to reach a server that is out of reach. */
  reconnect?(): void;
  /** The answer to a message that this client did not send. */
  follow?(message: ChatQuestion): ChatAnswer;
  on(event: "connection", listener: (state: ChatConnection) => void): () => void;
  on(event: "transport", listener: (transport: ChatTransport) => void): () => void;
  /** Somebody else has asked something in this conversation. */
  on(event: "message", listener: (message: OtherQuestion) => void): () => void;
}

/** A message of the conversation. */
export interface ChatQuestion {
  readonly messageId: string;
  readonly responseId: string;
  readonly question: string;
}

/** A question that was not asked yet, which may be empty; `replaces` and `parent` as in {@link ChatClient.ask}. */
export interface ChatDraft {
  readonly text: string;
  readonly replaces?: string | undefined;
  readonly parent?: string | undefined;
}

/** A question of somebody else; `replaces` and `parent` as in {@link ChatClient.ask}. */
export interface OtherQuestion extends ChatQuestion {
  readonly replaces: string | null;
  readonly parent?: string | null;
}

/** The same with its answer, as far as that has come. */
export interface ChatMessage extends ChatQuestion {
  /** The `messageId`s of all messages in its place, oldest first. */
  readonly versions?: readonly string[];
  /** `queued` and `streaming`: the answer is on its way. */
  readonly status: string;
  readonly text: string;
  readonly parts: readonly ChatPart[];
  readonly finishReason: string | null;
  readonly error: { readonly code: string; readonly type: string; readonly message: string } | null;
}

/** Messages, oldest first; `before` asks for older ones, if there are any. */
export interface ChatPage {
  readonly messages: readonly ChatMessage[];
  readonly before: string | null;
}

/** One answer: an iteration ends with `completed`, or throws what ended the answer. */
export interface ChatAnswer extends AsyncIterable<ChatEvent> {
  readonly question: string;
  readonly messageId?: string;
  /** `null` until the server has the question. */
  readonly responseId: string | null;
  stop(): unknown;
}

export type ChatTransport = "websocket" | "sse" | "long-poll";
export type ChatConnection = "connecting" | "open" | "waiting" | "closed";

/** One thing of an answer; what is not known is not shown. */
export type ChatPart =
  | { readonly type: "text" | "reasoning" | "refusal"; readonly text: string }
  | ChatTool
  | { readonly type: "source"; readonly url: string; readonly title: string }
  | { readonly type: "data" };

/** A tool that the model has called. */
export interface ChatTool {
  readonly type: "tool";
  readonly name: string;
  /** As far as they have come; whole once `isComplete`. */
  readonly arguments: string;
  readonly isComplete: boolean;
  readonly result?: string;
}

/** What happens to an answer, in order. */
export type ChatEvent =
  /** The text has grown by `text`, which is that of the indexes `from` to `index`. */
  | { readonly type: "delta"; readonly text: string; readonly from: number; readonly index: number }
  /** The part at `position` is new, or has grown to this. */
  | { readonly type: "part"; readonly position: number; readonly part: ChatPart }
  /** Only the first `keep` characters of the text and these `parts` still stand; what replaces the rest follows. */
  | { readonly type: "restarted"; readonly keep: number; readonly parts?: readonly ChatPart[] }
  /**
   * `historyDropped`: the number of oldest messages that the model does not receive; `historyDroppedBy`: why, if known.
   */
  | {
      readonly type: "accepted";
      readonly responseId: string;
      readonly historyDropped?: number;
      readonly historyDroppedBy?: "server" | "model" | (string & {});
    }
  /** How the answer travels from now on. `fallback`: because nothing better could be had. */
  | { readonly type: "transport"; readonly transport: ChatTransport; readonly fallback: boolean }
  /** The answer waits for its model; the next one has the position 1. `null`: nobody knows how long. */
  | { readonly type: "queued"; readonly position: number; readonly expectedSeconds: number | null }
  | { readonly type: "lag" }
  | { readonly type: "waiting"; readonly delayMs: number }
  /** `reason`: why the last try failed, for the page's maker. */
  | { readonly type: "reconnecting"; readonly delayMs: number; readonly reason?: string }
  | { readonly type: "resumed" }
  | { readonly type: "polled" }
  | {
      readonly type: "completed";
      readonly finishReason:
        | "stop"
        | "length"
        | "budget"
        | "content_filter"
        | "cancelled"
        | "abandoned"
        | (string & {});
      readonly usage: { readonly completion_tokens: number } | null;
      readonly degraded: boolean;
    };
