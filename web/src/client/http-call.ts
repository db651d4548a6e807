import { firstOf, timeout } from "./delay.ts";
import { errorBody } from "./error-body.ts";
import { ConnectionError, ProtocolError, RefusedError } from "./errors.ts";
import { type Check, shape } from "./shape.ts";

export interface HttpCall {
  /** `GET` by default. */
  readonly method?: "POST" | "DELETE";
  readonly url: string;
  /** The session token or tenant key, sent as `Authorization: Bearer`. */
  readonly bearer: string | undefined;
  readonly body?: unknown;
  /** How long the call may take, in milliseconds; as long as it likes where that is not said. */
  readonly timeLimit?: number;
  readonly signal?: AbortSignal;
}

type Abortable = Pick<HttpCall, "signal">;

/** What a hotel's network says in the server's place, or a proxy: no page of theirs is an answer. */
const NOT_OURS = "something in between has answered";

const refused = shape({ error: errorBody });

/**
 * Makes one call and returns its answer, the body of which is still to be read. Throws {@link RefusedError} for an answer
 * in the protocol's error shape, {@link ConnectionError} for anything in the way of the server (the network, a time-out, a
 * page of whatever status that a proxy or a portal has made), {@link ProtocolError} for a refusal in another API's JSON, and
 * for a call that this browser can not make; and the signal's reason when aborted.
 */
export async function openCall(call: HttpCall): Promise<Response> {
  const { method = "GET", url, bearer, body, timeLimit, signal } = call;
  const response = await reached(signal, () =>
    fetch(url, {
      method,
      headers: {
        "Content-Type": "application/json",
        ...(bearer ? { Authorization: `Bearer ${bearer}` } : {}),
      },
      // Chromium's cache makes a call wait for another one to the same address, which may hang.
      cache: "no-store",
      signal: firstOf(...[timeLimit ? timeout(timeLimit) : [], signal ?? []].flat()),
      body: JSON.stringify(body),
    }),
  );
  if (response.ok) return response;
  throw refusal(response, parseJson(await reached(signal, () => response.text())));
}

/**
 * What `call` was answered with. Throws as {@link openCall}, {@link ConnectionError} for what is no JSON, and
 * {@link ProtocolError} for what does not pass `check`.
 */
export async function readJson<T>({ signal }: Abortable, response: Response, check: Check<T>): Promise<T> {
  const value = parseJson(await reached(signal, () => response.text()));
  if (value === undefined) throw new ConnectionError(NOT_OURS);
  return check(value, "the answer");
}

async function reached<T>(signal: AbortSignal | undefined, exchange: () => Promise<T>): Promise<T> {
  let isBegun = false;
  try {
    const result = exchange();
    isBegun = true;
    return await result;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    // A failure before the call begins would repeat itself each time.
    throw new (isBegun ? ConnectionError : ProtocolError)(`not reached: ${error}`);
  }
}

function refusal(response: Response, value: unknown): Error {
  // The form that is a date is not used by this protocol.
  const retryAfterMs = Number(response.headers.get("Retry-After")) * 1_000 || undefined;
  try {
    const body = refused(value, "the answer").error;
    const wait = body.retry_after_ms ?? retryAfterMs;
    return new RefusedError({ ...body, retry_after_ms: wait });
  } catch {
    const mayPass = value === undefined || response.status >= 500 || response.status === 429;
    return mayPass
      ? new ConnectionError(NOT_OURS, retryAfterMs)
      : new ProtocolError(`answered with ${response.status}`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
