import type { Environment } from "./environment.ts";
import { RefusedError } from "./errors.ts";
import { callForJson, type HttpCall } from "./http-call.ts";
import type { JsonFields } from "./json-fields.ts";
import { LIMITS } from "./limits.ts";

export interface SessionOptions {
  /** Where the server is, without a slash at the end: `https://chat.example.com`. */
  readonly baseUrl: string;
  readonly tenant?: string;
  readonly agent?: string;
  /** Continues that session instead of making one. */
  readonly sessionId?: string;
  /** The key of a tenant that needs one. */
  readonly tenantKey?: string;
}

/** What opens the session's calls and connections. */
export interface Credentials {
  readonly sessionId: string;
  readonly token: string;
  readonly websocketUrl: string;
}

/** One conversation with the server, and the token that proves the right to it. Made at the first use. */
export class Session {
  readonly #options: SessionOptions;
  readonly #environment: Environment;
  #credentials: Credentials | undefined;
  #renewAt = 0;
  #renewing: Promise<Credentials> | undefined;

  constructor(options: SessionOptions, environment: Environment) {
    this.#options = options;
    this.#environment = environment;
  }

  /** A token that is good for a while yet: the present one, or a new one for the same session. */
  credentials(): Promise<Credentials> {
    if (this.#credentials !== undefined && this.#environment.now() < this.#renewAt) {
      return Promise.resolve(this.#credentials);
    }
    return this.#renew();
  }

  /**
   * Calls `path` with the token, and once more with a new token when that one is not accepted.
   * Throws what {@link callForJson} throws.
   */
  async call(path: string, call: Pick<HttpCall, "method" | "body" | "timeoutMs" | "signal">): Promise<JsonFields> {
    const url = this.#options.baseUrl + path;
    const { token } = await this.credentials();
    try {
      return await callForJson(this.#environment.fetch, { ...call, url, bearer: token });
    } catch (error) {
      if (!isTokenRefusal(error)) throw error;
    }
    const renewed = await this.#replace(token);
    return await callForJson(this.#environment.fetch, { ...call, url, bearer: renewed.token });
  }

  /** A token for the same session other than `refused`, which the server does not accept any more. */
  #replace(refused: string): Promise<Credentials> {
    return this.#credentials?.token === refused ? this.#renew() : this.credentials();
  }

  /** Asks for a token; callers that come while one is on its way share it. */
  #renew(): Promise<Credentials> {
    this.#renewing ??= this.#create().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #create(): Promise<Credentials> {
    const { baseUrl, tenant, agent, tenantKey } = this.#options;
    const sessionId = this.#credentials?.sessionId ?? this.#options.sessionId;
    const answer = await callForJson(this.#environment.fetch, {
      method: "POST",
      url: `${baseUrl}/session`,
      bearer: tenantKey,
      body: { tenant, agent, session_id: sessionId },
      timeoutMs: LIMITS.callTimeoutMs,
    });
    this.#credentials = {
      sessionId: answer.string("session_id"),
      token: answer.string("token"),
      websocketUrl: answer.string("ws_url"),
    };
    this.#renewAt = this.#renewalTime(answer.string("expires_at"));
    return this.#credentials;
  }

  /** When the token should be renewed; never, when this device's clock makes no sense of `expiresAt` (a 401 will tell). */
  #renewalTime(expiresAt: string): number {
    const renewAt = Date.parse(expiresAt) - LIMITS.renewTokenMs;
    return renewAt > this.#environment.now() ? renewAt : Number.POSITIVE_INFINITY;
  }
}

function isTokenRefusal(error: unknown): boolean {
  return error instanceof RefusedError && error.body.type === "authentication_error";
}
