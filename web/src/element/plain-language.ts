import { BY_CODE, budgetUsedUp, type Explanation, inWords, type KnownError } from "./error-codes.ts";
import type { Strings } from "./strings.ts";

export type { Explanation } from "./error-codes.ts";

/** The fields of the client's errors that are used here; `kind` distinguishes them. */
interface ClientError {
  readonly kind: string;
  readonly body?: {
    readonly code: string;
    readonly type: string;
    readonly message: string;
    readonly retry_after_ms?: number | undefined;
  };
}

const PAGE_FAULT: KnownError = ["pageFault", false];
const PAGE_TOO_OLD: KnownError = ["pageTooOld", false];

/** Texts for the client's own errors, by kind. */
const BY_KIND: ReadonlyMap<string, KnownError> = new Map<string, KnownError>([
  ["connection", ["unreachable", true]],
  ["protocol", PAGE_TOO_OLD],
  ["replaced", ["replaced", true]],
  ["closed", ["closed", false]],
  ["busy", ["stillAnswering", false]],
]);

/** Texts for rejections with an unknown code, by type. */
const BY_TYPE: ReadonlyMap<string, KnownError> = new Map<string, KnownError>([
  ["rate_limit_error", ["busy", true]],
  ["overloaded_error", ["busy", true]],
  ["authentication_error", ["notLetIn", true]],
  ["invalid_request_error", PAGE_TOO_OLD],
]);

/** Types of temporary errors. */
const PASSING = ["rate_limit_error", "overloaded_error"];
/** Codes that mean: the server no longer has the answer. */
const GONE = ["response_not_found", "response_expired"];
/** The message comes from the backend, for readers; the same request would get it again. */
const EXPLAINED = "upstream_explained";
/** After this the model has nothing of the answer to continue from. */
const FORGOTTEN = "attempts_exhausted";

/** The client does not retry temporary rejections that last longer than this. */
const SOON_MS = 60_000;

/** Explains what went wrong, and what to do. `hasText`: some of the answer has arrived. */
export function explain(error: unknown, strings: Strings, hasText = false, now = new Date()): Explanation {
  if (!isClientError(error)) return inWords(PAGE_FAULT, strings);
  if (error.kind === "answer") return explainFailure(error.body, strings, hasText);
  if (error.kind === "refused") return explainRefusal(error.body, strings, hasText, now);
  return inWords(BY_KIND.get(error.kind) ?? PAGE_FAULT, strings);
}

/** Whether the server rejected a question, or the rest of an answer. */
export function isRefusal(error: unknown): boolean {
  return isClientError(error) && error.kind === "refused";
}

/** Whether the same call may succeed later. */
export function mayPass(error: unknown): boolean {
  return isClientError(error) && (error.kind === "connection" || PASSING.includes(error.body?.type ?? ""));
}

/** Whether it is the answer's own error, and not one of its delivery. */
export function isAnswerError(error: unknown): boolean {
  return isClientError(error) && error.kind === "answer";
}

/** Whether the server no longer has the answer. */
export function isGone(error: unknown): boolean {
  return isClientError(error) && error.kind === "refused" && GONE.includes(error.body?.code ?? "");
}

function isClientError(error: unknown): error is ClientError {
  return error instanceof Object && "kind" in error && typeof error.kind === "string";
}

/** Explains an error that ended an answer. */
function explainFailure(body: ClientError["body"], strings: Strings, hasText: boolean): Explanation {
  const { code = "", message = "" } = body ?? {};
  const known = BY_CODE.get(code);
  const explanation = known
    ? inWords(known, strings)
    : { what: strings.answerFailed, remedy: message, askAgain: code !== EXPLAINED };
  return { ...explanation, goOn: hasText && code !== FORGOTTEN };
}

/** Explains why the server rejected the question, or the rest of its answer. */
function explainRefusal(body: ClientError["body"], strings: Strings, hasText: boolean, now: Date): Explanation {
  const { code = "", type = "", message = "", retry_after_ms: waitMs = 0 } = body ?? {};
  if (hasText && GONE.includes(code)) return inWords(["restIsLost", true], strings);
  if (code === "budget_exhausted") return budgetUsedUp(body?.retry_after_ms, now, strings);
  const known = BY_CODE.get(code) ?? BY_TYPE.get(type);
  const explanation = known
    ? inWords(known, strings)
    : { what: strings.questionNotTaken, remedy: message, askAgain: true };
  return waitMs <= SOON_MS ? explanation : { ...explanation, remedy: strings.tryAgainIn(waitMs) };
}
