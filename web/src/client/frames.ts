import type { ErrorBody } from "./error-body.ts";

/** The WebSocket subprotocols; `compact` writes a delta as a short array. */
export type Subprotocol = "evenflow.v1" | "evenflow.v1.compact";

/** Where a response is in its life. The last three are final. */
export type ResponseStatus = "queued" | "streaming" | "completed" | "error" | "cancelled";

/** Why an answer ended. */
export type FinishReason = "stop" | "length" | "cancelled";

/** Tokens that an answer cost. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

export interface SessionReadyFrame {
  readonly type: "session.ready";
  readonly session_id: string;
  /** The largest frame that the server takes, in bytes. */
  readonly message_bytes: number;
}

export interface StartFrame {
  readonly type: "chat.response.start";
  readonly response_id: string;
  readonly message_id: string;
  readonly status: ResponseStatus;
  /** The first index that will follow. */
  readonly next_index: number;
  /** Counts the tasks that have owned the response: a later one takes over from one that was lost or has left. */
  readonly epoch: number;
}

/** One delta, or several joined: `delta` is the text of the indexes `from` to `index`, both included. */
export interface DeltaFrame {
  readonly type: "chat.response.delta";
  readonly response_id: string;
  readonly delta: string;
  readonly from: number;
  readonly index: number;
}

/**
 * The text after `from_index` (-1: all of it) is replaced by what follows. `index` is this frame's own; where that is -1,
 * everything follows again, from index 0 on.
 */
export interface RestartedFrame {
  readonly type: "chat.response.restarted";
  readonly response_id: string;
  readonly from_index: number;
  readonly attempt: number;
  readonly index: number;
  /** See {@link StartFrame}. What an earlier owner has sent under this index or a later one no longer counts. */
  readonly epoch: number;
}

export interface CompletedFrame {
  readonly type: "chat.response.completed";
  readonly response_id: string;
  readonly finish_reason: FinishReason;
  readonly last_index: number;
  readonly usage: Usage | null;
  /** The answer came from a fallback, not from the model that was asked. */
  readonly degraded: boolean;
}

export interface ResponseErrorFrame {
  readonly type: "chat.response.error";
  readonly response_id: string;
  readonly last_index: number;
  readonly error: ErrorBody;
}

export interface LagFrame {
  readonly type: "lag";
  readonly response_id: string;
  readonly behind_deltas: number;
  readonly behind_ms: number;
}

/** A message was not accepted (`throttle`: a rate or quota; `system.busy`: the queue is full). */
export interface RefusalFrame {
  readonly type: "throttle" | "system.busy";
  /** `null` when the refusal is about no message in particular. */
  readonly message_id: string | null;
  readonly error: ErrorBody;
}

export interface ReconnectFrame {
  readonly type: "reconnect";
  readonly reason: string;
  readonly after_ms: number;
}

export interface ErrorFrame {
  readonly type: "error";
  readonly message_id: string | null;
  readonly response_id: string | null;
  readonly error: ErrorBody;
}

/** What the server sends, as far as this client uses it; a compact delta is already given its response's id. */
export type ServerFrame =
  | SessionReadyFrame
  | StartFrame
  | DeltaFrame
  | RestartedFrame
  | CompletedFrame
  | ResponseErrorFrame
  | LagFrame
  | RefusalFrame
  | ReconnectFrame
  | ErrorFrame;

/** What the client sends. */
export type ClientFrame =
  | {
      readonly type: "chat.message";
      readonly message_id: string;
      readonly previous_message_id: string | null;
      readonly payload: { readonly text: string };
    }
  | {
      readonly type: "response.resume";
      readonly response_id: string;
      readonly after: number;
      readonly epoch: number;
    }
  | { readonly type: "response.cancel"; readonly response_id: string }
  | { readonly type: "response.ack"; readonly response_id: string; readonly index: number };
