/** The one error shape of the protocol (section 6), as it is on the wire. */
export interface ErrorBody {
  readonly type: string;
  readonly code: string;
  /** For people; may change between releases. */
  readonly message: string;
  readonly param?: string | undefined;
  /** How long to wait before trying again, in milliseconds. */
  readonly retry_after_ms?: number | undefined;
  /** With `causal_violation`: the `previous_message_id` that the server expects. */
  readonly expected?: string | null | undefined;
}

abstract class ClientError extends Error {
  abstract readonly kind: string;
}

/** Says what the server has said. */
abstract class ServerError extends ClientError {
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    super(body.message);
    this.body = body;
  }
}

/** The server refused a call or a message. Nothing was generated for it. */
export class RefusedError extends ServerError {
  readonly kind = "refused";

  /** True for a quota or an overload: the same call may succeed later, where the server says when after `body.retry_after_ms`. */
  get isTemporary(): boolean {
    return this.body.type === "rate_limit_error" || this.body.type === "overloaded_error";
  }
}

/** The answer began and then ended with an error. What was delivered before it is still good. */
export class AnswerError extends ServerError {
  readonly kind = "answer";
}

/** The server could not be reached, or a connection to it was lost. */
export class ConnectionError extends ClientError {
  readonly kind = "connection";
  /** When to try again, in milliseconds from now, where the server has said so. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retryAfterMs?: number) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The other side does not speak the protocol: trying again will not help. */
export class ProtocolError extends ClientError {
  readonly kind = "protocol";
}

/** A newer connection of the same session asked to be the only one. */
export class ReplacedError extends ClientError {
  readonly kind = "replaced";

  constructor() {
    super("a newer connection took over");
  }
}

/** `ask` was called while an answer was still being delivered. */
export class BusyError extends ClientError {
  readonly kind = "busy";

  constructor() {
    super("an answer is under way");
  }
}

/** The client was closed: while the answer was being delivered, or before it was asked for. */
export class ClosedError extends ClientError {
  readonly kind = "closed";

  constructor() {
    super("the client was closed");
  }
}

/** Everything that the client throws, told apart by `kind`. */
export type EvenflowError =
  | RefusedError
  | AnswerError
  | ConnectionError
  | ProtocolError
  | ReplacedError
  | BusyError
  | ClosedError;

/** Whether `error` is one of the client's own errors. */
export function isEvenflowError(error: unknown): error is EvenflowError {
  return error instanceof ClientError;
}
