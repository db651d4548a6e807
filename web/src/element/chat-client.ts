/** What the element needs of a client; `connect()` of `@evenflow/client` gives one. */
export interface ChatClient {
  /** `replaces`: the `messageId` of the last answer, if this is another try at it. */
  ask(question: string, options?: { readonly replaces?: string | undefined }): ChatAnswer;
  /** The answer that a reload of the page has interrupted. */
  readonly resumable: ChatAnswer | null;
  readonly transport: ChatTransport | null;
  readonly connection: ChatConnection;
  on(event: "connection", listener: (state: ChatConnection) => void): () => void;
  on(event: "transport", listener: (transport: ChatTransport) => void): () => void;
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

/** What happens to an answer, in order. */
export type ChatEvent =
  /** The text has grown by `text`, which is that of the indexes `from` to `index`. */
  | { readonly type: "delta"; readonly text: string; readonly from: number; readonly index: number }
  /** Only the first `keep` characters of the text still stand; what replaces the rest follows. */
  | { readonly type: "restarted"; readonly keep: number }
  | { readonly type: "accepted"; readonly responseId: string }
  /** How the answer travels from now on. `fallback`: because nothing better could be had. */
  | { readonly type: "transport"; readonly transport: ChatTransport; readonly fallback: boolean }
  | { readonly type: "lag" }
  | { readonly type: "waiting"; readonly delayMs: number }
  | { readonly type: "reconnecting"; readonly delayMs: number }
  | { readonly type: "resumed" }
  | { readonly type: "polled" }
  | {
      readonly type: "completed";
      readonly finishReason: "stop" | "length" | "content_filter" | "cancelled" | (string & {});
      readonly usage: { readonly completion_tokens: number } | null;
      readonly degraded: boolean;
    };
