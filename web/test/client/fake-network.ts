import { vi } from "vitest";
import { FakeSocket } from "./fake-socket.ts";

export interface FakeCall {
  readonly method: string;
  readonly origin: string;
  readonly path: string;
  readonly bearer: string | null;
  readonly body: Record<string, unknown>;
  readonly signal: AbortSignal | undefined;
  readonly cache: RequestCache | undefined;
}

type Handler = (call: FakeCall) => Response | Promise<Response>;

/** What lies between the client and the server: nothing; or connections are refused; swallowed; or answered by a login page. */
export type Path = "up" | "refused" | "dark" | "portal";

/** A server and the network to it, played by the test in the place of the platform's. */
export class FakeNetwork {
  readonly sockets: FakeSocket[] = [];
  readonly calls: FakeCall[] = [];
  /** What happens to a new socket; by default it says `session.ready` at once. */
  onSocket: (socket: FakeSocket) => void = (socket) => queueMicrotask(() => socket.ready());
  readonly #handlers = new Map<string, Handler>();
  path: Path = "up";
  /** Whether a WebSocket gets through where HTTP does. */
  takesWebSockets = true;
  /** The client's chance. */
  random: () => number = () => 0.5;
  #ids = 0;
  #tokens = 0;

  constructor() {
    this.#install();
    this.on("GET /chat/message/none", () => refusal(404, { type: "not_found_error", code: "response_not_found" }));
    this.on("POST /session", () => {
      this.#tokens += 1;
      return json(201, {
        session_id: "ses_1",
        token: `token-${this.#tokens}`,
        expires_at: new Date(Date.now() + 3_600_000).toISOString(),
        ws_url: "ws://127.0.0.1:8080/ws",
        http_url: "http://127.0.0.1:8080",
      });
    });
  }

  /** Answers `METHOD /path`; a later handler takes the place of an earlier one. */
  on(methodAndPath: string, handler: Handler): void {
    this.#handlers.set(methodAndPath, handler);
  }

  /** Answers one call after another with `answers`; the last one again and again. */
  onEach(methodAndPath: string, answers: readonly Handler[]): void {
    let next = 0;
    this.on(methodAndPath, (call) => {
      const handler = answers[Math.min(next, answers.length - 1)];
      next += 1;
      if (handler === undefined) throw new Error("no answer");
      return handler(call);
    });
  }

  callsTo(methodAndPath: string): FakeCall[] {
    return this.calls.filter((call) => `${call.method} ${call.path.split("?")[0]}` === methodAndPath);
  }

  /** The socket that was opened last. */
  get socket(): FakeSocket {
    const socket = this.sockets.at(-1);
    if (socket === undefined) throw new Error("no socket was opened");
    return socket;
  }

  #install(): void {
    const open = (url: string, protocols: string[]) => this.#open(url, protocols);
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => this.#fetch(url, init));
    vi.stubGlobal(
      "WebSocket",
      class {
        constructor(url: string, protocols: string[]) {
          // biome-ignore lint/correctness/noConstructorReturn: the fake socket stands in for the real one
          return open(url, protocols);
        }
      },
    );
    // The real one knows nothing of the fake clock.
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
      const late = new AbortController();
      setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), ms);
      return late.signal;
    });
    vi.stubGlobal("crypto", { getRandomValues: () => [this.#newId()] });
    vi.spyOn(Math, "random").mockImplementation(() => this.random());
  }

  #newId(): string {
    this.#ids += 1;
    return `id-${this.#ids}`;
  }

  #open(url: string, protocols: string[]): FakeSocket {
    const socket = new FakeSocket(url, protocols);
    this.sockets.push(socket);
    if (this.path === "up" && this.takesWebSockets) this.onSocket(socket);
    else if (this.path !== "dark") queueMicrotask(() => socket.drop());
    return socket;
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const { origin, pathname, search } = new URL(url);
    const call: FakeCall = {
      method: init.method ?? "GET",
      origin,
      path: pathname + search,
      bearer: new Headers(init.headers).get("Authorization"),
      body: typeof init.body === "string" ? (JSON.parse(init.body) as Record<string, unknown>) : {},
      signal: init.signal ?? undefined,
      cache: init.cache,
    };
    this.calls.push(call);
    if (this.path === "refused") throw new TypeError("refused");
    if (this.path === "dark") return await aborted(call.signal);
    if (this.path === "portal")
      return new Response("<html>Log in</html>", { headers: { "Content-Type": "text/html" } });
    const handler = this.#handlers.get(`${call.method} ${pathname}`);
    if (handler === undefined) throw new TypeError(`nothing answers ${call.method} ${pathname}`);
    return await Promise.race([handler(call), aborted(call.signal)]);
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

export function refusal(
  status: number,
  error: Record<string, unknown>,
  headers: Record<string, string> = {},
): Response {
  return json(status, { error: { message: "refused", ...error } }, headers);
}

/** The answer to a poll, in the shape of the protocol. */
export function poll(from: number, text: string, count: number, status: string, extra: Record<string, unknown> = {}) {
  const { full_text, ...metadata } = extra;
  const next = from + count;
  return () =>
    json(200, {
      response_id: "rsp_1",
      new_text: text,
      chunk_index: next - 1,
      status,
      ...(full_text === undefined ? {} : { full_text }),
      metadata: {
        message_id: "id-1",
        next_index: next,
        finish_reason: status === "completed" ? "stop" : null,
        degraded: false,
        usage: null,
        restarted: null,
        ...metadata,
      },
    });
}

/** Nothing comes, until the caller gives up. */
function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
}
