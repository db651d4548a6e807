import type { Environment } from "./environment.ts";
import { parseErrorBody } from "./error-body.ts";
import { ConnectionError, ProtocolError, RefusedError } from "./errors.ts";
import { JsonFields } from "./json-fields.ts";

export interface HttpCall {
  readonly method: "GET" | "POST";
  readonly url: string;
  /** The session token or tenant key, sent as `Authorization: Bearer`. */
  readonly bearer: string | undefined;
  readonly body?: unknown;
  /** How long the call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/**
 * Makes one call and returns the object that it answered with. Throws {@link RefusedError} for an answer in the
 * protocol's error shape, {@link ConnectionError} for anything in the way of the server (the network, a time-out, a
 * proxy's own 5xx page), {@link ProtocolError} for an answer that makes no sense; and the signal's reason when aborted.
 */
export async function callForJson(fetch: Environment["fetch"], call: HttpCall): Promise<JsonFields> {
  const { response, text } = await exchange(fetch, call);
  const value = parseJson(text);
  if (response.ok) {
    if (value === undefined) throw new ProtocolError(`${call.method} answered ${response.status} without JSON`);
    return JsonFields.of(value, `${call.method} answer`);
  }
  throw refusal(response, value);
}

async function exchange(
  fetch: Environment["fetch"],
  call: HttpCall,
): Promise<{ readonly response: Response; readonly text: string }> {
  const timeout = AbortSignal.timeout(call.timeoutMs);
  const headers = new Headers();
  if (call.bearer !== undefined) headers.set("Authorization", `Bearer ${call.bearer}`);
  if (call.body !== undefined) headers.set("Content-Type", "application/json");
  try {
    const response = await fetch(call.url, {
      method: call.method,
      headers,
      cache: "no-store",
      signal: call.signal === undefined ? timeout : AbortSignal.any([call.signal, timeout]),
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
    });
    return { response, text: await response.text() };
  } catch (error) {
    if (call.signal?.aborted) throw call.signal.reason;
    throw new ConnectionError(`${call.method} failed: ${error instanceof Error ? error.message : "network"}`);
  }
}

function refusal(response: Response, value: unknown): Error {
  const retryAfterMs = parseRetryAfter(response.headers.get("Retry-After"));
  try {
    const body = parseErrorBody(JsonFields.of(value, "answer").value("error"));
    const wait = body.retry_after_ms ?? retryAfterMs;
    return new RefusedError(wait === undefined ? body : { ...body, retry_after_ms: wait });
  } catch {
    // Not our server's words: a proxy or a gateway in between.
    const message = `the server answered ${response.status}`;
    const mayPass = response.status >= 500 || response.status === 429;
    return mayPass ? new ConnectionError(message, retryAfterMs) : new ProtocolError(message);
  }
}

/** `Retry-After` in milliseconds; its date form is not used by this protocol. */
function parseRetryAfter(header: string | null): number | undefined {
  return header !== null && /^\d+$/.test(header) ? Number(header) * 1_000 : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
