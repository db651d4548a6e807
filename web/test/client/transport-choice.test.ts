import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Client } from "../../src/client/client.ts";
import { ConnectionError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork, json, poll } from "./fake-network.ts";

let network: FakeNetwork;
let client: Client;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
  network.on("GET /chat/message/rsp_1", poll(0, "a", 1, "completed", { full_text: "a" }));
  client = new Client({ baseUrl: "http://test" }, network.environment);
});

afterEach(() => {
  vi.useRealTimers();
});

const BLOCKED = { type: "transport", transport: "long-poll", fallback: true };

describe("the choice of a transport", () => {
  it("falls back at once where the WebSocket is refused", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    const asked = new Asked(client);
    await pass();
    expect(asked.events[0]).toEqual(BLOCKED);
    expect([asked.text, asked.ended]).toEqual(["a", true]);
  });

  it("falls back after two seconds where nothing answers", async () => {
    network.onSocket = () => {};
    const asked = new Asked(client);
    await pass(1_999);
    expect(asked.events).toEqual([]);
    await pass(1);
    expect(asked.events[0]).toEqual(BLOCKED);
    expect(asked.text).toBe("a");
  });

  it("falls back where a socket opens but lets no frame through", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.raw("<html>"));
    const asked = new Asked(client);
    await pass(2_000);
    expect(asked.events[0]).toEqual(BLOCKED);
  });

  it("falls back where the browser does not allow the address", async () => {
    network.onSocket = () => {
      throw new DOMException("insecure", "SecurityError");
    };
    const asked = new Asked(client);
    await pass();
    expect(asked.events[0]).toEqual(BLOCKED);
  });

  it("tries the WebSocket again for the next question", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    new Asked(client);
    await pass();
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    const second = new Asked(client);
    await pass();
    expect(second.events[0]).toMatchObject({ transport: "websocket" });
  });

  it("waits less where it has waited in vain before, and uses what opens late", async () => {
    network.onSocket = () => {};
    new Asked(client);
    await pass(2_000);
    const second = new Asked(client);
    await pass(500);
    expect(second.events[0]).toEqual(BLOCKED);
    expect(network.sockets).toHaveLength(1);
    network.socket.ready();
    const third = new Asked(client);
    await pass();
    expect(third.events[0]).toMatchObject({ transport: "websocket" });
  });

  it("takes a new token when one that has opened a connection before opens none any more", async () => {
    await client.connect();
    network.socket.drop();
    network.onSocket = (socket) =>
      queueMicrotask(() => (socket.protocols.includes("bearer.token-2") ? socket.ready() : socket.drop()));
    const asked = new Asked(client);
    await pass();
    expect(asked.events[0]).toMatchObject({ transport: "websocket" });
    expect(network.callsTo("POST /session")).toHaveLength(2);
  });

  it("keeps its token where no connection was ever opened with it", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    new Asked(client);
    await pass();
    new Asked(client);
    await pass();
    expect(network.callsTo("POST /session")).toHaveLength(1);
  });

  it("gives an attempt up in the end", async () => {
    network.onSocket = () => {};
    new Asked(client);
    await pass(10_000);
    expect(network.socket.closedByClient).toBe(true);
  });

  it("opens the connection ahead of the first question when asked to", async () => {
    await expect(client.connect()).resolves.toBe("websocket");
    const asked = new Asked(client);
    await pass();
    expect(network.sockets).toHaveLength(1);
    expect(asked.events[0]).toMatchObject({ transport: "websocket" });
  });

  it("says so when the server cannot be reached at all", async () => {
    network.on("POST /session", () => Promise.reject(new TypeError("network")));
    await expect(client.connect()).rejects.toBeInstanceOf(ConnectionError);
    const asked = new Asked(client);
    await pass(60_000);
    expect(asked.error).toBeInstanceOf(ConnectionError);
  });
});
