import type { FinishReason, HistoryBound, Usage } from "./api.ts";
import { CONTENT } from "./content.ts";
import { errorBody } from "./error-body.ts";
import type { Payload } from "./memory.ts";
import { type Check, type Checked, flag, index, number, object, optional, shape, string } from "./shape.ts";

/** Only passed on, so that a reason that is new with the server does no harm. */
export const finishReason = string as Check<FinishReason>;
/** Absent while nothing was counted; only passed on. */
export const usage = optional(object as Check<unknown> as Check<Usage>, null);
/**
 * Counts the tasks that have owned the response: a later one takes over from one that was lost or has left. It goes
 * without saying as long as the response has its first owner.
 */
export const epoch = optional(number, 1);

/** The number of the conversation's oldest messages that the model does not receive, and the bound. */
export interface DroppedHistory {
  readonly history_dropped: number;
  readonly history_dropped_by: HistoryBound | null;
}

export const HISTORY = {
  history_dropped: optional(number, 0),
  history_dropped_by: optional(string as Check<HistoryBound>, null),
};

const name = optional(string, null);
/** A message was not accepted (`throttle`: a rate or quota; `system.busy`: the queue is full). */
const refusal = shape({
  /** `null` when the refusal is about no message in particular. */
  message_id: name,
  retry_after_ms: number,
  error: errorBody,
});

/** What the server sends by its `type`, as far as this client uses it. */
export const FRAMES = {
  // No type is known by what every object has.
  __proto__: null,
  "session.ready": shape({}),
  /** Another connection of the session has sent a message. */
  "session.message": shape({
    message_id: string,
    response_id: string,
    text: optional(string, ""),
    replaces: name,
    parent_message_id: name,
  }),
  "chat.response.start": shape({
    response_id: string,
    message_id: string,
    /** The first index that will follow. */
    next_index: index,
    epoch,
    ...HISTORY,
    /** Stands for the response in compact deltas. */
    stream: optional(number, null),
  }),
  /** The response waits for its model; the next one has the position 1. */
  "chat.response.queued": shape({ response_id: string, position: number, expected_seconds: optional(number, null) }),
  /** One delta, or several joined: `delta` is the text of the indexes `from` (else only `index`) to `index`. */
  "chat.response.delta": shape({ response_id: string, delta: string, index, from: optional(index, null) }),
  /** What is no text, or several such joined, as a delta is. */
  "chat.response.event": shape({ response_id: string, index, from: optional(index, null), ...CONTENT }),
  /**
   * The text after `from_index` (-1: all of it) is replaced by what follows. `index` is this frame's own; where that is
   * -1, everything follows again, from index 0 on. What an owner before `epoch` has sent under this index or a later one
   * no longer counts.
   */
  "chat.response.restarted": shape({ response_id: string, from_index: index, index, epoch }),
  "chat.response.completed": shape({
    response_id: string,
    finish_reason: finishReason,
    last_index: index,
    usage,
    /** The answer came from a fallback, not from the model that was asked. */
    degraded: flag,
  }),
  "chat.response.error": shape({ response_id: string, last_index: index, error: errorBody }),
  lag: shape({ response_id: string, behind_deltas: number, behind_ms: number }),
  throttle: refusal,
  "system.busy": refusal,
  reconnect: shape({ after_ms: number }),
  /** Answers a `ping`. */
  pong: shape({}),
  error: shape({ message_id: name, response_id: name, error: errorBody }),
};

export type FrameType = Exclude<keyof typeof FRAMES, "__proto__">;

/** What the server sends under the type `T`. */
export type FrameOf<T extends FrameType> = T extends FrameType
  ? { readonly type: T } & Checked<(typeof FRAMES)[T]>
  : never;

export type ServerFrame = FrameOf<FrameType>;

/** A question, over whatever transport. */
export interface Message {
  readonly message_id: string;
  readonly previous_message_id: string | null;
  readonly replaces: string | undefined;
  readonly parent_message_id: string | undefined;
  readonly payload: Payload;
}

/** What the client sends. */
export type ClientFrame =
  | ({ readonly type: "chat.message" } & Message)
  | {
      readonly type: "response.resume";
      readonly response_id: string;
      readonly after: number;
      readonly epoch: number;
    }
  | { readonly type: `response.${"cancel" | "pause" | "continue"}`; readonly response_id: string }
  | { readonly type: "response.ack"; readonly response_id: string; readonly index: number }
  | { readonly type: "ping" };
