import { JsonFields } from "./json-fields.ts";

/** The one error shape of the protocol (section 6), as it is on the wire. */
export interface ErrorBody {
  readonly type: string;
  readonly code: string;
  /** For people; may change between releases. */
  readonly message: string;
  readonly param?: string;
  /** How long to wait before trying again, in milliseconds. */
  readonly retry_after_ms?: number;
  /** With `causal_violation`: the `previous_message_id` that the server expects. */
  readonly expected?: string | null;
}

/** Reads an error object. Throws {@link ProtocolError} when `value` does not have the shape. */
export function parseErrorBody(value: unknown): ErrorBody {
  const fields = JsonFields.of(value, "error");
  const param = fields.optionalString("param");
  const retryAfter = fields.optionalNumber("retry_after_ms");
  return {
    type: fields.string("type"),
    code: fields.string("code"),
    message: fields.string("message"),
    ...(param === undefined ? {} : { param }),
    ...(retryAfter === undefined ? {} : { retry_after_ms: retryAfter }),
    ...(fields.has("expected") ? { expected: fields.nullableString("expected") } : {}),
  };
}
