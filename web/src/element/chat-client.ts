/** What the element needs of a client; `connect()` of `@evenflow/client` returns one. */
export interface ChatClient {
  /**
   * `replaces`: the `messageId` of a message that this one replaces, in a new version of the conversation. `parent`:
   * that of the last message of an older version, to continue that.
   */
  ask(
    question: string,
    options?: { readonly replaces?: string | undefined; readonly parent?: string | undefined },
  ): ChatAnswer;
  /** The answer that a reload of the page interrupted. */
  readonly resumable: ChatAnswer | null;
  readonly transport: ChatTransport | null;
  readonly connection: ChatConnection;
  /** Whether there may be messages from before this page was loaded; `messages` reads them. */
  readonly isResumed?: boolean;
  /** The newest messages of the conversation, or those before one; `through`: of the version with this message. */
  messages?(options?: {
    readonly before?: string | undefined;
    readonly through?: string | undefined;
  }): Promise<ChatPage>;
  /** The reader's unsent text, and the version of the conversation on the screen. Kept over a reload. */
  draft?: ChatDraft | null;
  /** Retries an unreachable server at once. */
  reconnect?(): void;
  /** The answer to a message that this client did not send. */
  follow?(message: ChatQuestion): ChatAnswer;
  on(event: "connection", listener: (state: ChatConnection) => void): () => void;
  on(event: "transport", listener: (transport: ChatTransport) => void): () => void;
  /** A question from elsewhere in this conversation, such as another tab. */
  on(event: "message", listener: (message: OtherQuestion) => void): () => void;
}

/** A message of the conversation. */
export interface ChatQuestion {
  readonly messageId: string;
  readonly responseId: string;
  readonly question: string;
}

/** An unsent question, which may be empty; `replaces` and `parent` as in {@link ChatClient.ask}. */
export interface ChatDraft {
  readonly text: string;
  readonly replaces?: string | undefined;
  readonly parent?: string | undefined;
}

/** A question from elsewhere; `replaces` and `parent` as in {@link ChatClient.ask}. */
export interface OtherQuestion extends ChatQuestion {
  readonly replaces: string | null;
  readonly parent?: string | null;
}

/** A question with its answer so far. */
export interface ChatMessage extends ChatQuestion {
  /** The `messageId`s of all messages in its place, oldest first. */
  readonly versions?: readonly string[];
  /** `queued` and `streaming`: the answer is running. */
  readonly status: string;
  readonly text: string;
  readonly parts: readonly ChatPart[];
  readonly finishReason: string | null;
  readonly error: { readonly code: string; readonly type: string; readonly message: string } | null;
}

/** Messages, oldest first; `before` is the cursor for older ones, if there are any. */
export interface ChatPage {
  readonly messages: readonly ChatMessage[];
  readonly before: string | null;
}

/** One answer: an iteration ends with `completed`, or throws the error that ended the answer. */
export interface ChatAnswer extends AsyncIterable<ChatEvent> {
  readonly question: string;
  readonly messageId?: string;
  /** `null` until the server has the question. */
  readonly responseId: string | null;
  stop(): unknown;
}

export type ChatTransport = "websocket" | "sse" | "long-poll";
export type ChatConnection = "connecting" | "open" | "waiting" | "closed";

/** One part of an answer; unknown kinds are not shown. */
export type ChatPart =
  | { readonly type: "text" | "reasoning" | "refusal"; readonly text: string }
  | ChatTool
  | { readonly type: "source"; readonly url: string; readonly title: string }
  | { readonly type: "data" };

/** A tool call of the model. */
export interface ChatTool {
  readonly type: "tool";
  readonly name: string;
  /** The arguments so far; complete once `isComplete`. */
  readonly arguments: string;
  readonly isComplete: boolean;
  readonly result?: string;
}

/** The events of an answer, in order. */
export type ChatEvent =
  /** `text` was appended, with the indexes `from` to `index`. */
  | { readonly type: "delta"; readonly text: string; readonly from: number; readonly index: number }
  /** The part at `position` is new, or has grown to this. */
  | { readonly type: "part"; readonly position: number; readonly part: ChatPart }
  /** Only the first `keep` characters of the text and these `parts` remain; their replacement follows. */
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
  /** The transport from now on. `fallback`: no better one is available. */
  | { readonly type: "transport"; readonly transport: ChatTransport; readonly fallback: boolean }
  /** The answer waits for its model; the next one has the position 1. `null`: unknown. */
  | { readonly type: "queued"; readonly position: number; readonly expectedSeconds: number | null }
  | { readonly type: "lag" }
  | { readonly type: "waiting"; readonly delayMs: number }
  /** `reason`: why the last attempt failed, for the page's developer. */
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
