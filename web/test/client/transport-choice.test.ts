import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork, json, poll, refusal } from "./fake-network.ts";

let network: FakeNetwork;
let client: EvenflowClient;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
  network.on("GET /chat/message/rsp_1", poll(0, "a", 1, "completed", { full_text: "a" }));
  client = new EvenflowClient({ url: "http://test", transports: ["websocket", "long-poll"] });
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

  it("finds out by polling that a token opens nothing any more, and opens the WebSocket with the new one", async () => {
    await client.open();
    network.socket.drop();
    network.onSocket = (socket) =>
      queueMicrotask(() => (socket.protocols.includes("bearer.token-2") ? socket.ready() : socket.drop()));
    network.on("POST /chat/message", (call) =>
      call.bearer === "Bearer token-2"
        ? json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" })
        : refusal(401, { type: "authentication_error", code: "token_invalid" }),
    );
    const asked = new Asked(client);
    await pass();
    expect([asked.text, asked.ended]).toEqual(["a", true]);
    const second = new Asked(client);
    await pass();
    expect(second.events[0]).toMatchObject({ transport: "websocket" });
    expect(network.callsTo("POST /session")).toHaveLength(2);
  });

  it("does not ask for another token because a handshake was refused: in a storm that is what everybody would do", async () => {
    await client.open();
    network.socket.drop();
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    new Asked(client);
    await pass();
    expect(network.sockets).toHaveLength(2);
    expect(network.callsTo("POST /session")).toHaveLength(1);
  });

  it("gives an attempt up in the end", async () => {
    network.onSocket = () => {};
    new Asked(client);
    await pass(10_000);
    expect(network.socket.closedByClient).toBe(true);
  });

  it("opens the connection ahead of the first question when asked to", async () => {
    await client.open();
    expect([client.transport, client.connection]).toEqual(["websocket", "open"]);
    const asked = new Asked(client);
    await pass();
    expect(network.sockets).toHaveLength(1);
    expect(asked.events[0]).toMatchObject({ transport: "websocket" });
  });

  it("says so when the server cannot be reached at all, and tries on", async () => {
    network.on("POST /session", () => Promise.reject(new TypeError("network")));
    await client.open();
    expect(client.connection).toBe("waiting");
    const asked = new Asked(client);
    await pass(60_000);
    expect([asked.ended, asked.of("transport")]).toEqual([false, []]);
    expect(asked.of("reconnecting").length).toBeGreaterThan(30);
    void asked.answer.stop();
  });
});

it("says why a question does not get through, also where what gives the key is broken", async () => {
  const key = () => {
    throw new TypeError("x is not a function");
  };
  const asked = new Asked(new EvenflowClient({ url: "http://test", key }));
  await pass(1_000);
  expect(asked.of("reconnecting")[0]?.reason).toBe("no key: TypeError: x is not a function");
  void asked.answer.stop();
});

describe("an answer that is polled for want of a WebSocket", () => {
  const RESPONSE = "GET /chat/message/rsp_1";

  /** One delta with every poll, each of which is held for a second. */
  function pollEverySecond(): void {
    network.on(RESPONSE, async (call) => {
      const from = Number(new URL(call.path, "http://test").searchParams.get("from_index"));
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return poll(from, `${from} `, 1, "streaming")();
    });
  }

  /** The text of so many polls. */
  function numbers(count: number): string {
    return Array.from({ length: count }, (_, index) => `${index} `).join("");
  }

  beforeEach(() => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    pollEverySecond();
  });

  it("goes over to one between two polls, as soon as it can be had", async () => {
    const asked = new Asked(client);
    await pass(3_500);
    expect(asked.text).toBe("0 1 2 ");
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    await pass(5_000);
    expect(asked.of("transport").at(-1)).toEqual({ type: "transport", transport: "websocket", fallback: false });
    const polls = network.callsTo(RESPONSE).length;
    expect(network.socket.sentOf("response.resume")).toEqual([
      { type: "response.resume", response_id: "rsp_1", after: polls - 1, epoch: 1 },
    ]);
    network.socket.start({ message_id: "id-1", next_index: polls });
    network.socket.delta(polls, "whole");
    network.socket.completed(polls);
    await pass();
    expect(asked.text).toBe(`${numbers(polls)}whole`);
    expect(network.callsTo(RESPONSE)).toHaveLength(polls);
  });

  it("tries for one more and more seldom, and never keeps a poll waiting for it", async () => {
    network.random = () => 1;
    new Asked(client);
    await pass(60_500);
    expect(network.callsTo(RESPONSE)).toHaveLength(61);
    // At 0 s; then, a second at the earliest after every wait of 0.5, four times 1, 2, 4 and then always 8 s.
    expect(network.sockets).toHaveLength(1 + 7 + 6);
  });

  it("loses nothing when the WebSocket that it went over to is lost again", async () => {
    const asked = new Asked(client);
    await pass(500);
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    await pass(2_000);
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    network.socket.drop();
    await pass(10_000);
    expect(asked.of("transport").map((event) => event.transport)).toEqual(["long-poll", "websocket", "long-poll"]);
    const polls = network.callsTo(RESPONSE).length;
    expect(asked.text).toBe(numbers(polls - 1));
  });

  it("stays on long-polling where that was asked for", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    new Asked(new EvenflowClient({ url: "http://test", transports: ["long-poll"] }));
    await pass(10_000);
    expect(network.sockets).toEqual([]);
  });
});
