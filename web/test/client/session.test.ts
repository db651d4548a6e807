import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ConnectOptions } from "../../src/client/api.ts";
import { Memory } from "../../src/client/memory.ts";
import { Session } from "../../src/client/session.ts";
import { flag, shape } from "../../src/client/shape.ts";
import { FakeNetwork, json, refusal } from "./fake-network.ts";

const CALL = { timeLimit: 1_000 };
const THING = shape({ ok: flag });
const ANSWER = { session_id: "ses_1", token: "t", expires_at: "2099-01-01T00:00:00Z" };

let network: FakeNetwork;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
});

afterEach(() => {
  vi.useRealTimers();
});

function newSession(options: ConnectOptions = {}): Session {
  return new Session({ url: "http://test", ...options }, new Memory(null, ""));
}

function sessions(): unknown[] {
  return network.callsTo("POST /session").map((call) => call.body);
}

describe("Session", () => {
  it("is made at the first use, with what it was given", async () => {
    const session = newSession({ tenant: "acme", agent: "support", key: "secret" });
    await expect(session.credentials()).resolves.toEqual({
      sessionId: "ses_1",
      token: "token-1",
      socketUrl: "ws://127.0.0.1:8080/ws",
      renewAt: Date.now() + 3_540_000,
      suggestions: [],
    });
    expect(sessions()).toEqual([{ tenant: "acme", agent: "support" }]);
    expect(network.calls[0]?.bearer).toBe("Bearer secret");
  });

  it.each([
    ["http://site.test", "/ws", "ws://site.test/ws"],
    ["https://site.test/ev", "/ws", "wss://site.test/ev/ws"],
    ["https://site.test/ev", "/ev/ws", "wss://site.test/ev/ws"],
    ["https://site.test", "ws://site.test/ws", "wss://site.test/ws"],
    ["https://site.test/ev", "wss://site.test/ws", "wss://site.test/ev/ws"],
    ["https://site.test", "wss://ws.site.test/ws", "wss://ws.site.test/ws"],
    ["http://site.test:8080", "ws://site.test:8081/ws", "ws://site.test:8081/ws"],
    ["https://site.test/ev", "wss://site.test/sockets/ws", "wss://site.test/sockets/ws"],
  ])("of %s, where the server names %s, has its WebSocket at %s", async (url, named, socketUrl) => {
    network.on("POST /session", () => json(201, { ...ANSWER, ws_url: named }));
    network.on("POST /ev/session", () => json(201, { ...ANSWER, ws_url: named }));
    expect((await newSession({ url }).credentials()).socketUrl).toBe(socketUrl);
  });

  it("asks for the key with every token, where that is fetched", async () => {
    let keys = 0;
    const session = newSession({ key: async () => `key-${++keys}` });
    await session.credentials();
    vi.advanceTimersByTime(3_541_000);
    await session.credentials();
    expect(network.calls.map((call) => call.bearer)).toEqual(["Bearer key-1", "Bearer key-2"]);
  });

  it("is made and renewed elsewhere, where that is said; all else goes to the server", async () => {
    const session = newSession({ sessionUrl: "https://app.test/session" });
    network.on("GET /v1", () => json(200, {}));
    await session.credentials();
    vi.advanceTimersByTime(3_541_000);
    await session.open("/v1", {});
    expect(network.calls.map(({ origin, path }) => origin + path)).toEqual([
      "https://app.test/session",
      "https://app.test/session",
      "http://test/v1",
    ]);
  });

  it("is made once for callers that come together", async () => {
    const session = newSession();
    await Promise.all([session.credentials(), session.credentials()]);
    await session.credentials();
    expect(sessions()).toEqual([{}]);
  });

  it("gets a new token for the same session shortly before the old one expires", async () => {
    const session = newSession();
    await session.credentials();
    vi.advanceTimersByTime(3_539_000);
    expect((await session.credentials()).token).toBe("token-1");
    vi.advanceTimersByTime(2_000);
    expect((await session.credentials()).token).toBe("token-2");
    expect(sessions()).toEqual([{}, { session_id: "ses_1" }]);
  });

  it("does not ask again and again when this device's clock is wrong", async () => {
    network.on("POST /session", () =>
      json(201, { session_id: "s", token: "t", expires_at: "2001-01-01T00:00:00Z", ws_url: "ws://x", http_url: "" }),
    );
    const session = newSession();
    await session.credentials();
    await session.credentials();
    expect(sessions()).toHaveLength(1);
  });

  it("repeats a call with a new token after a 401", async () => {
    network.onEach("GET /thing", [
      () => refusal(401, { type: "authentication_error", code: "token_expired" }),
      () => json(200, { ok: true }),
    ]);
    const session = newSession();
    const answer = await session.call("/thing", CALL, THING);
    expect(answer.ok).toBe(true);
    expect(network.callsTo("GET /thing").map((call) => call.bearer)).toEqual(["Bearer token-1", "Bearer token-2"]);
  });

  it("repeats it only once", async () => {
    network.on("GET /thing", () => refusal(401, { type: "authentication_error", code: "token_invalid" }));
    await expect(newSession().call("/thing", CALL, THING)).rejects.toMatchObject({ body: { code: "token_invalid" } });
    expect(network.callsTo("GET /thing")).toHaveLength(2);
  });

  it("renews once for two calls that are refused together", async () => {
    network.on("GET /thing", (call) =>
      call.bearer === "Bearer token-1"
        ? refusal(401, { type: "authentication_error", code: "token_expired" })
        : json(200, {}),
    );
    const session = newSession();
    await session.credentials();
    await Promise.all([session.call("/thing", CALL, THING), session.call("/thing", CALL, THING)]);
    expect(sessions()).toHaveLength(2);
  });

  it("can be made later when the first attempt failed", async () => {
    const working = (): Response =>
      json(201, { session_id: "s", token: "t", expires_at: "2999-01-01T00:00:00Z", ws_url: "ws://x", http_url: "" });
    network.onEach("POST /session", [() => Promise.reject(new TypeError("network")), working]);
    const session = newSession();
    await expect(session.credentials()).rejects.toMatchObject({ kind: "connection" });
    await expect(session.credentials()).resolves.toMatchObject({ token: "t" });
  });

  it("does not take half an answer for a session", async () => {
    network.on("POST /session", () => json(201, { session_id: "s" }));
    await expect(newSession().credentials()).rejects.toMatchObject({ kind: "protocol" });
  });
});
