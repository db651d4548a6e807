import type { ErrorBody } from "./error-body.ts";

/** The server refused a call or a message. Nothing was generated for it. */
export class RefusedError extends Error {
  readonly kind = "refused";
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = "RefusedError";
    this.body = body;
  }

  /** True for a quota or an overload: the same call may succeed later. */
  get isTemporary(): boolean {
    return this.body.type === "rate_limit_error" || this.body.type === "overloaded_error";
  }
}

/** The answer began and then ended with an error. What was delivered before it is still good. */
export class AnswerError extends Error {
  readonly kind = "answer";
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = "AnswerError";
    this.body = body;
  }
}

/** The server could not be reached, or a connection to it was lost. */
export class ConnectionError extends Error {
  readonly kind = "connection";
  /** When to try again, in milliseconds from now, where the server has said so. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retryAfterMs?: number) {
    super(message);
    this.name = "ConnectionError";
    this.retryAfterMs = retryAfterMs;
  }
}

/** The other side does not speak the protocol: trying again will not help. */
export class ProtocolError extends Error {
  readonly kind = "protocol";

  constructor(message: string) {
    super(message);
    this.name = "ProtocolError";
  }
}

/** A newer connection of the same session asked to be the only one. */
export class ReplacedError extends Error {
  readonly kind = "replaced";

  constructor() {
    super("a newer connection of this session took over");
    this.name = "ReplacedError";
  }
}

/** `ask` was called while an answer was still being delivered. */
export class BusyError extends Error {
  readonly kind = "busy";

  constructor() {
    super("an answer is still being delivered");
    this.name = "BusyError";
  }
}

/** Everything that the client throws, told apart by `kind`. */
export type EvenflowError = RefusedError | AnswerError | ConnectionError | ProtocolError | ReplacedError | BusyError;

/** Whether `error` is one of the client's own errors. */
export function isEvenflowError(error: unknown): error is EvenflowError {
  return (
    error instanceof RefusedError ||
    error instanceof AnswerError ||
    error instanceof ConnectionError ||
    error instanceof ProtocolError ||
    error instanceof ReplacedError ||
    error instanceof BusyError
  );
}
