import type { FinishReason, Usage } from "./frames.ts";

export type TransportName = "websocket" | "long-poll";

/** What happens to one question, in order. The last event of an answer is `completed`; anything worse is thrown. */
export type AnswerEvent =
  /** How the answer is being moved from now on. `fallback`: because a WebSocket could not be had. */
  | { readonly type: "transport"; readonly transport: TransportName; readonly fallback: boolean }
  /** The server has the question. */
  | { readonly type: "accepted"; readonly responseId: string; readonly messageId: string }
  /** The text has grown by `text`, which is that of the indexes `from` to `index`. */
  | { readonly type: "text"; readonly text: string; readonly from: number; readonly index: number }
  /** Some of the text, or all of it, is replaced by what follows: the whole text is now `text`. */
  | { readonly type: "restarted"; readonly text: string }
  /** This reader is behind; the next pieces come joined. */
  | { readonly type: "lag"; readonly behindDeltas: number; readonly behindMs: number }
  /** The server is busy; the question is sent again in `delayMs`. */
  | { readonly type: "waiting"; readonly delayMs: number }
  /** The connection was lost; it is opened again in `delayMs`. */
  | { readonly type: "reconnecting"; readonly delayMs: number }
  /** The connection is back, and the answer goes on. */
  | { readonly type: "resumed" }
  /** A poll was answered, and what it has brought is told. */
  | { readonly type: "polled" }
  | {
      readonly type: "completed";
      readonly finishReason: FinishReason;
      readonly lastIndex: number;
      readonly usage: Usage | null;
      /** The answer came from a fallback, not from the model that was asked. */
      readonly degraded: boolean;
    };
