import { parseErrorBody } from "./error-body.ts";
import { ProtocolError } from "./errors.ts";
import type {
  CompletedFrame,
  DeltaFrame,
  FinishReason,
  ResponseStatus,
  ServerFrame,
  SessionReadyFrame,
  StartFrame,
  Usage,
} from "./frames.ts";
import { JsonFields } from "./json-fields.ts";

const STATUSES: readonly ResponseStatus[] = ["queued", "streaming", "completed", "error", "cancelled"];
const FINISH_REASONS: readonly FinishReason[] = ["stop", "length", "cancelled"];

/** Reads a response's status. Throws {@link ProtocolError} for one that the protocol does not know. */
export function parseStatus(value: string): ResponseStatus {
  return STATUSES.find((status) => status === value) ?? unknownWord("status", value);
}

/** Reads a finish reason. Throws {@link ProtocolError} for one that the protocol does not know. */
export function parseFinishReason(value: string): FinishReason {
  return FINISH_REASONS.find((reason) => reason === value) ?? unknownWord("finish_reason", value);
}

/** Reads the token counts, which are absent while nothing was counted. */
export function parseUsage(usage: JsonFields | undefined): Usage | null {
  if (usage === undefined) return null;
  return { prompt_tokens: usage.number("prompt_tokens"), completion_tokens: usage.number("completion_tokens") };
}

/** Reads the epoch, which goes without saying as long as the response has its first owner. */
export function parseEpoch(fields: JsonFields): number {
  return fields.optionalNumber("epoch") ?? 1;
}

/** Turns the text frames of one connection into checked objects. It remembers which compact stream is which response. */
export class FrameDecoder {
  readonly #responseOfStream = new Map<number, string>();

  /**
   * Decodes one frame; `null` for a type that this client does not know, which is to be ignored.
   * Throws {@link ProtocolError} for anything that is not a frame of the protocol.
   */
  decode(data: unknown): ServerFrame | null {
    if (typeof data !== "string") throw new ProtocolError("a binary frame");
    const value = parseJson(data);
    if (Array.isArray(value)) return this.#compactDelta(value);
    const fields = JsonFields.of(value, "frame");
    const frame = parseObject(fields);
    if (frame?.type === "chat.response.start" && fields.has("stream")) {
      this.#responseOfStream.set(fields.index("stream"), frame.response_id);
    }
    return frame;
  }

  #compactDelta(value: readonly unknown[]): DeltaFrame {
    const fields = JsonFields.of({ stream: value[0], index: value[1], delta: value[2], from: value[3] }, "delta");
    const responseId = this.#responseOfStream.get(fields.index("stream"));
    if (responseId === undefined) throw new ProtocolError("a delta of a stream that was not announced");
    return delta(fields, responseId);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError("a frame is not JSON");
  }
}

function parseObject(fields: JsonFields): ServerFrame | null {
  const type = fields.string("type");
  switch (type) {
    case "session.ready":
      return sessionReady(fields);
    case "chat.response.start":
      return start(fields);
    case "chat.response.delta":
      return delta(fields, fields.string("response_id"));
    case "chat.response.restarted":
      return {
        type,
        response_id: fields.string("response_id"),
        from_index: fields.index("from_index"),
        attempt: fields.number("attempt"),
        index: fields.index("index"),
        epoch: parseEpoch(fields),
      };
    case "chat.response.completed":
      return completed(fields);
    case "chat.response.error":
      return {
        type,
        response_id: fields.string("response_id"),
        last_index: fields.index("last_index"),
        error: parseErrorBody(fields.value("error")),
      };
    default:
      return parseSignal(type, fields);
  }
}

function parseSignal(type: string, fields: JsonFields): ServerFrame | null {
  switch (type) {
    case "lag":
      return {
        type,
        response_id: fields.string("response_id"),
        behind_deltas: fields.number("behind_deltas"),
        behind_ms: fields.number("behind_ms"),
      };
    case "throttle":
    case "system.busy":
      return {
        type,
        message_id: fields.nullableString("message_id"),
        error: { ...parseErrorBody(fields.value("error")), retry_after_ms: fields.number("retry_after_ms") },
      };
    case "reconnect":
      return { type, reason: fields.string("reason"), after_ms: fields.number("after_ms") };
    case "error":
      return {
        type,
        message_id: fields.nullableString("message_id"),
        response_id: fields.nullableString("response_id"),
        error: parseErrorBody(fields.value("error")),
      };
    default:
      return null;
  }
}

function sessionReady(fields: JsonFields): SessionReadyFrame {
  return {
    type: "session.ready",
    session_id: fields.string("session_id"),
    message_bytes: fields.object("limits").number("message_bytes"),
  };
}

function start(fields: JsonFields): StartFrame {
  return {
    type: "chat.response.start",
    response_id: fields.string("response_id"),
    message_id: fields.string("message_id"),
    status: parseStatus(fields.string("status")),
    next_index: fields.index("next_index"),
    epoch: parseEpoch(fields),
  };
}

function delta(fields: JsonFields, responseId: string): DeltaFrame {
  const index = fields.index("index");
  const from = fields.has("from") ? fields.index("from") : index;
  if (from < 0 || from > index) throw new ProtocolError(`a delta from ${from} to ${index}`);
  return { type: "chat.response.delta", response_id: responseId, delta: fields.string("delta"), from, index };
}

function completed(fields: JsonFields): CompletedFrame {
  return {
    type: "chat.response.completed",
    response_id: fields.string("response_id"),
    finish_reason: parseFinishReason(fields.string("finish_reason")),
    last_index: fields.index("last_index"),
    usage: parseUsage(fields.optionalObject("usage")),
    degraded: fields.flag("degraded"),
  };
}

function unknownWord(field: string, value: string): never {
  throw new ProtocolError(`${field} "${value}" is not known`);
}
