import { BY_CODE, budgetUsedUp, type Explanation } from "./error-codes.ts";

export type { Explanation } from "./error-codes.ts";

/** As much of the client's errors as is looked at: they are told apart by `kind`. */
interface ClientError {
  readonly kind: string;
  readonly body?: {
    readonly code: string;
    readonly type: string;
    readonly message: string;
    readonly retry_after_ms?: number | undefined;
  };
}

const BUSY: Explanation = {
  what: "Evenflow is very busy right now.",
  remedy: "Your question was tried several times and not accepted. Wait a moment, then try again.",
  askAgain: true,
};
const REST_IS_LOST: Explanation = {
  what: "The rest of this answer is lost.",
  remedy: "The server no longer has it. What has arrived stays above. Try again for a new answer.",
  askAgain: true,
};
const PAGE_TOO_OLD: Explanation = {
  what: "This page and the server do not understand each other.",
  remedy: "The page may be an old copy. Reload it and ask again.",
  askAgain: false,
};
const CONNECTION: Explanation = {
  what: "The server cannot be reached.",
  remedy: "It may be down, or your network is. Whatever has arrived stays above. Try again in a while.",
  askAgain: true,
};
const REPLACED: Explanation = {
  what: "This conversation was opened in another place.",
  remedy: "Carry on there, or try again to go on here.",
  askAgain: true,
};
const STILL_ANSWERING: Explanation = {
  what: "An answer is still on its way.",
  remedy: "Stop it, or wait for its end.",
  askAgain: false,
};
const CLOSED: Explanation = {
  what: "This conversation was closed.",
  remedy: "Reload the page to go on with it, or open the page in a new tab to start a new one.",
  askAgain: false,
};
const NOT_LET_IN: Explanation = {
  what: "The server did not let this page in.",
  remedy: "Try again. If that does not help, reload the page, and sign in again where it has a login.",
  askAgain: true,
};
const OUR_OWN_FAULT: Explanation = {
  what: "Something went wrong in this page.",
  remedy: "Reload the page and ask again.",
  askAgain: false,
};

/** Codes that mean: the server had the answer once. */
const GONE = ["response_not_found", "response_expired"];
/** After this the model remembers nothing of the answer that it could go on from. */
const FORGOTTEN = "attempts_exhausted";

/** Refusals that pass, but not within this time, are not tried again by the client. */
const SOON_MS = 60_000;

/** Says in plain language what went wrong, and what to do. `hasText`: some of the answer has arrived. */
export function explain(error: unknown, hasText = false, now = new Date()): Explanation {
  if (!isClientError(error)) return OUR_OWN_FAULT;
  switch (error.kind) {
    case "connection":
      return CONNECTION;
    case "protocol":
      return PAGE_TOO_OLD;
    case "replaced":
      return REPLACED;
    case "closed":
      return CLOSED;
    case "busy":
      return STILL_ANSWERING;
    case "answer":
      return explainFailure(error.body, hasText);
    case "refused":
      return explainRefusal(error.body, hasText, now);
    default:
      return OUR_OWN_FAULT;
  }
}

/** Whether the server did not take a question, or the rest of an answer. */
export function isRefusal(error: unknown): boolean {
  return isClientError(error) && error.kind === "refused";
}

/** Whether the answer itself has ended so, and not its delivery. */
export function isAnswerError(error: unknown): boolean {
  return isClientError(error) && error.kind === "answer";
}

/** Whether the server does not have the answer any more. */
export function isGone(error: unknown): boolean {
  return isClientError(error) && error.kind === "refused" && GONE.includes(error.body?.code ?? "");
}

function isClientError(error: unknown): error is ClientError {
  return error instanceof Object && "kind" in error && typeof error.kind === "string";
}

/** An answer that began has ended with this error. */
function explainFailure(body: ClientError["body"], hasText: boolean): Explanation {
  const { code = "", message = "" } = body ?? {};
  const known = BY_CODE.get(code);
  const explanation = known ?? { what: "The answer ended with an error.", remedy: message, askAgain: true };
  return { ...explanation, goOn: hasText && code !== FORGOTTEN };
}

/** The server has refused the question, or the rest of its answer. */
function explainRefusal(body: ClientError["body"], hasText: boolean, now: Date): Explanation {
  const { code = "", type = "", message = "", retry_after_ms: waitMs = 0 } = body ?? {};
  if (hasText && GONE.includes(code)) return REST_IS_LOST;
  if (code === "budget_exhausted") return budgetUsedUp(body?.retry_after_ms, now);
  const explanation = BY_CODE.get(code) ?? explainType(type, message);
  if (waitMs <= SOON_MS) return explanation;
  return { ...explanation, remedy: `Your question was not accepted. Try again in ${spoken(waitMs)}.` };
}

function spoken(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  return minutes < 120 ? `${minutes} minutes` : `${Math.ceil(minutes / 60)} hours`;
}

function explainType(type: string, message: string): Explanation {
  switch (type) {
    case "rate_limit_error":
    case "overloaded_error":
      return BUSY;
    case "authentication_error":
      return NOT_LET_IN;
    case "invalid_request_error":
      return PAGE_TOO_OLD;
    default:
      return { what: "The server did not take this question.", remedy: message, askAgain: true };
  }
}
