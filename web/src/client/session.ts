import type { ConnectOptions } from "./api.ts";
import { delay, firstOf } from "./delay.ts";
import { ConnectionError, RefusedError } from "./errors.ts";
import { hedged } from "./hedge.ts";
import { type HttpCall, openCall, readJson } from "./http-call.ts";
import * as LIMITS from "./limits.ts";
import type { Memory } from "./memory.ts";
import { type Check, object, optional, shape, string } from "./shape.ts";

type SessionCall = Omit<HttpCall, "url" | "bearer">;

/** What opens the session's calls and connections. */
export interface Credentials {
  readonly sessionId: string;
  readonly token: string;
  readonly socketUrl: string;
  /** When the token should be renewed, in milliseconds since 1970; `null`: once it is refused. */
  readonly renewAt: number | null;
  readonly suggestions?: readonly string[];
}

/** Only passed on. */
const suggestions = optional(object as Check<unknown> as Check<readonly string[]>, []);
const answer = shape({ session_id: string, token: string, ws_url: string, expires_at: string, suggestions });

/** One conversation with the server, and the token that proves the right to it. Made at the first use. */
export class Session {
  readonly #options: ConnectOptions;
  readonly #memory: Memory;
  #renewing: Promise<Credentials> | undefined;
  /** Probes in a row without an answer, and how long the last answered one took. */
  #unreached = 0;
  #reachedInMs = 0;
  /** When a probe was late, or not answered. */
  #roughAt = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectOptions, memory: Memory) {
    this.#options = options;
    this.#memory = memory;
  }

  /** A token that is good for a while yet: the present one, or a new one for the same session. */
  async credentials(): Promise<Credentials> {
    const { credentials } = this.#memory.kept;
    const isGood = credentials && Date.now() < (credentials.renewAt ?? Infinity);
    return isGood ? credentials : await this.#renew();
  }

  /** What `path` answers with. Throws as {@link open}, and a `ProtocolError` for what does not pass `check`. */
  async call<T>(path: string, call: SessionCall, check: Check<T>): Promise<T> {
    return await readJson(call, await this.open(path, call), check);
  }

  /**
   * Calls `path` with the token, and once more with a new token when that one is not accepted.
   * Throws what {@link openCall} throws.
   */
  async open(path: string, call: SessionCall): Promise<Response> {
    const url = this.serverUrl + path;
    const { token } = await this.credentials();
    try {
      return await openCall({ ...call, url, bearer: token });
    } catch (error) {
      if (!isTokenRefusal(error)) throw error;
    }
    const renewed = await this.#replace(token);
    return await openCall({ ...call, url, bearer: renewed.token });
  }

  /** How long a try may be without an answer from now on, in milliseconds. */
  get patienceMs(): number {
    const isLong = this.#unreached % LIMITS.longProbeEvery === LIMITS.longProbeEvery - 1;
    return Math.min(LIMITS.openAttemptMs, Math.max(LIMITS.probeMs * (isLong ? 2 : 1), 2 * this.#reachedInMs));
  }

  /** Whether a call was slow or lost a moment ago, so that a new one may be lost, too. */
  get isSuspect(): boolean {
    return this.#roughAt > Date.now() - LIMITS.callSilenceMs;
  }

  /** Notes that a call was not answered at once, as it should have been. */
  suspect(): void {
    this.#roughAt = Date.now();
  }

  /** Whether the server itself answers by HTTP, whatever it says. */
  async isReached(signal: AbortSignal = new AbortController().signal): Promise<boolean> {
    const askedAt = Date.now();
    const timeLimit = this.patienceMs;
    let isReached = false;
    try {
      await hedged(signal, (signal) => this.open("/chat/message/none", { timeLimit, signal }));
    } catch (error) {
      isReached = error instanceof RefusedError;
    }
    const tookMs = Date.now() - askedAt;
    if (!isReached || tookMs > LIMITS.hedgeMs) this.#roughAt = Date.now();
    this.#unreached = isReached ? 0 : this.#unreached + 1;
    if (isReached) this.#reachedInMs = tookMs;
    return isReached;
  }

  /**
   * Makes a call that is normally silent for `silenceMs` at most. After that, probes check whether the server can be
   * reached. If it can't, the call is aborted, and this rejects with a {@link ConnectionError}. If it couldn't for a
   * while, or the call was due after `dueMs`, the call may be lost, and is made again. The answer's body is not
   * watched.
   */
  async whileReached<T>(
    signal: AbortSignal,
    call: (signal: AbortSignal) => Promise<T>,
    silenceMs: number = LIMITS.callSilenceMs,
    dueMs = Infinity,
  ): Promise<T> {
    let { isSuspect } = this;
    for (;;) {
      const [over, loss] = [new AbortController(), new AbortController()];
      const begunAt = Date.now();
      let isStale = false;
      const watch = async () => {
        for (let waitMs = isSuspect ? LIMITS.flowSilenceMs : silenceMs + this.#reachedInMs; ; ) {
          await delay(waitMs, over.signal);
          const isReached = await this.isReached();
          if (over.signal.aborted) return;
          const untilDueMs = begunAt + dueMs - Date.now();
          isStale = isReached && (isSuspect || untilDueMs <= 0 || this.#roughAt > begunAt);
          if (!isReached || isStale) return loss.abort(new ConnectionError("the connection is lost"));
          waitMs = Math.min(LIMITS.longCallSilenceMs, untilDueMs);
        }
      };
      watch().catch(() => {});
      try {
        return await call(firstOf(signal, loss.signal));
      } catch (error) {
        if (!isStale || signal.aborted) throw error;
      } finally {
        over.abort();
      }
      isSuspect = false;
    }
  }

  /** The WebSocket's URL, next to this client's calls unless the server is configured with another one. */
  socketUrl(named: string): string {
    const own = new URL(`${this.serverUrl}/ws`, globalThis.location?.href);
    const url = new URL(named, own);
    return (url.host === own.host && url.pathname === "/ws" ? own : url).href.replace(/^http/, "ws");
  }

  /** The base of all calls. */
  get serverUrl(): string {
    const { url = globalThis.location?.origin } = this.#options;
    // What pages have, and servers may not have.
    if (!url || !globalThis.fetch) throw new Error("connect() needs a url, and fetch");
    return url;
  }

  /** A token for the same session other than `refused`, which the server does not accept any more. */
  #replace(refused: string): Promise<Credentials> {
    return this.#memory.kept.credentials?.token === refused ? this.#renew() : this.credentials();
  }

  /** Asks for a token; callers that come while one is on its way share it. */
  #renew(): Promise<Credentials> {
    this.#renewing ??= this.#create().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #create(): Promise<Credentials> {
    const { tenant, agent, key, sessionUrl } = this.#options;
    const call: HttpCall = {
      method: "POST",
      url: sessionUrl ?? `${this.serverUrl}/session`,
      bearer: typeof key === "function" ? await fetched(key) : key,
      body: { tenant, agent, session_id: this.#memory.kept.credentials?.sessionId },
      timeLimit: this.#unreached > 0 ? 2 * LIMITS.probeMs : LIMITS.callTimeoutMs,
    };
    const made = await readJson(call, await openCall(call), answer);
    const credentials: Credentials = {
      sessionId: made.session_id,
      token: made.token,
      socketUrl: this.socketUrl(made.ws_url),
      renewAt: this.#renewalTime(made.expires_at),
      suggestions: made.suggestions,
    };
    this.#memory.keep({ credentials });
    return credentials;
  }

  /** When the token should be renewed; `null` when this device's clock makes no sense of `expiresAt` (a 401 will tell). */
  #renewalTime(expiresAt: string): number | null {
    const renewAt = Date.parse(expiresAt) - LIMITS.renewTokenMs;
    return renewAt > Date.now() ? renewAt : null;
  }
}

function isTokenRefusal(error: unknown): boolean {
  return error instanceof RefusedError && error.body.type === "authentication_error";
}

/** What `key` gives. A `TypeError` is what `fetch` throws where the address that it asks can't be reached. */
async function fetched(key: () => string | Promise<string>): Promise<string> {
  try {
    return await key();
  } catch (error) {
    throw error instanceof TypeError ? new ConnectionError(`no key: ${error}`) : error;
  }
}
