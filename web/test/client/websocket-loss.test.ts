import { describe, expect, it, vi } from "vitest";
import { RefusedError, ReplacedError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { poll } from "./fake-network.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

describe("a WebSocket that is lost in the middle of an answer", () => {
  it("is opened again and the answer goes on after the last index", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.drop();
    await pass();
    expect(asked.of("reconnecting")).toEqual([{ type: "reconnecting", delayMs: 250, reason: "closed with 1006" }]);
    await pass(250);
    expect(network.sockets).toHaveLength(2);
    expect(network.socket.sent).toEqual([{ type: "response.resume", response_id: "rsp_1", after: 0, epoch: 1 }]);
    network.socket.start({ message_id: "id-1" });
    network.socket.delta(0, "a");
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect([asked.text, asked.of("resumed").length]).toEqual(["ab", 1]);
  });

  it("sends the question again when it was not accepted yet", async () => {
    new Asked(newClient());
    await pass();
    network.socket.drop();
    await pass(250);
    expect(network.socket.sent).toMatchObject([{ type: "chat.message", message_id: "id-1" }]);
  });

  it.each([1001, 1006, 1008, 1013, 4008, 4010])("comes back after close code %i", async (code) => {
    await asking();
    network.socket.drop(code);
    await pass(249);
    expect(network.sockets).toHaveLength(1);
    await pass(1);
    expect(network.sockets).toHaveLength(2);
  });

  it.each([
    [1009, RefusedError],
    [4009, ReplacedError],
  ])("does not come back after close code %i", async (code, error) => {
    const asked = await asking();
    network.socket.drop(code);
    await pass(30_000);
    expect(asked.error).toBeInstanceOf(error);
    expect(network.sockets).toHaveLength(1);
  });

  it("waits from one refused handshake to the next", async () => {
    await asking();
    network.socket.delta(0, "a");
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    network.socket.drop();
    for (const [wait, sockets] of [
      [250, 2],
      [500, 3],
      [500, 4],
    ] as const) {
      await pass(wait - 1);
      expect(network.sockets).toHaveLength(sockets - 1);
      await pass(1);
      expect(network.sockets).toHaveLength(sockets);
    }
  });

  it("is opened again however often, as long as the text grows", async () => {
    const asked = await asking();
    for (let index = 0; index < 20; index += 1) {
      network.socket.delta(index, `${index} `);
      network.socket.drop();
      await pass(250);
      network.socket.start({ message_id: "id-1", next_index: index + 1 });
    }
    expect(asked.of("transport")).toHaveLength(1);
    expect(network.sockets).toHaveLength(21);
  });

  it("goes on by long-polling when it cannot be had again", async () => {
    network.on("GET /chat/message/rsp_1", poll(1, "b", 1, "completed", { full_text: "ab" }));
    const asked = await asking();
    network.socket.delta(0, "a");
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    network.socket.drop();
    await pass(5_000);
    expect(asked.of("transport").at(-1)).toEqual({ type: "transport", transport: "long-poll", fallback: true });
    expect(network.callsTo("GET /chat/message/rsp_1")[0]?.path).toContain("from_index=1&");
    expect([asked.text, asked.ended]).toEqual(["ab", true]);
  });
});

describe("a WebSocket that falls silent while an answer is due", () => {
  it.each([0, 1_300, 2_400])("is found out, and opened again, within 5 s of a cut %i ms after a frame", async (cut) => {
    network.random = () => 1;
    await asking();
    network.socket.frame({ type: "pong" });
    await pass(cut);
    // Nothing comes any more.
    await pass(5_000 - cut);
    expect(network.sockets[0]?.sentOf("ping")).toHaveLength(1);
    expect(network.sockets[0]?.closedByClient).toBe(true);
    expect(network.sockets).toHaveLength(2);
    expect(network.socket.sentOf("response.resume")).toMatchObject([{ after: -1 }]);
  });

  it("in the middle of a text has another one beside it after a second and a half, which goes on", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    await pass(1_500);
    const [dead, next] = network.sockets;
    expect([dead?.sentOf("ping").length, dead?.closedByClient, network.sockets.length]).toEqual([1, false, 2]);
    expect(next?.sentOf("response.resume")).toMatchObject([{ after: 0 }]);
    next?.start({ message_id: "id-1", next_index: 1 });
    await pass();
    expect(dead?.closedByClient, "it may be slow").toBe(false);
    next?.delta(1, "b");
    next?.completed(1);
    await pass();
    expect([asked.text, dead?.closedByClient]).toEqual(["ab", true]);
    expect(asked.of("reconnecting")).toEqual([]);
  });

  it("is read on where it was only slow, and is then given more time", async () => {
    const asked = await asking();
    const [slow] = network.sockets;
    slow?.delta(0, "a");
    await pass(1_500);
    network.socket.start({ message_id: "id-1", next_index: 1 });
    slow?.delta(1, "b");
    await pass();
    expect([network.sockets[1]?.closedByClient, slow?.closedByClient]).toEqual([true, false]);
    await pass(2_400);
    slow?.delta(2, "c");
    slow?.completed(2);
    await pass();
    expect([asked.text, network.sockets.length]).toEqual(["abc", 2]);
  });

  it("has still another one beside it where that one can't be had", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.onSocket = () => {};
    await pass(1_500 + 2_000);
    expect([network.sockets.length, network.sockets[1]?.closedByClient]).toEqual([2, true]);
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    await pass(250);
    network.socket.start({ message_id: "id-1", next_index: 1 });
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect(asked.text).toBe("ab");
  });

  it("is found out when the last sign of life was a pong", async () => {
    network.random = () => 1;
    await asking();
    await pass(2_500);
    network.socket.frame({ type: "pong" });
    await pass(5_000);
    expect(network.sockets).toHaveLength(2);
  });

  it("is kept while the server answers, however long its model thinks", async () => {
    const asked = await asking();
    const { socket } = network;
    socket.onSend = ({ type }) => {
      if (type === "ping") setTimeout(() => socket.frame({ type: "pong" }), 1_900);
    };
    await pass(40_000);
    socket.delta(0, "42");
    socket.completed(0);
    await pass();
    expect([network.sockets.length, asked.text, asked.ended]).toEqual([1, "42", true]);
    expect(socket.sentOf("response.resume")).toHaveLength(0);
  });

  it("is not asked anything while text comes", async () => {
    await asking();
    for (let index = 0; index < 20; index += 1) {
      network.socket.delta(index, "a");
      await pass(900);
    }
    expect(network.socket.sentOf("ping")).toHaveLength(0);
  });

  it("is not asked anything while no answer is due", async () => {
    await asking();
    network.socket.completed(-1);
    await pass(600_000);
    expect([network.sockets.length, network.socket.sentOf("ping").length]).toEqual([1, 0]);
  });
});

describe("a tab in the background", () => {
  const MINUTE_MS = 60_000;

  /** The browser lets its timers run once a minute. */
  function throttleTimers(): typeof setTimeout {
    const { setTimeout: run } = globalThis;
    const untilTurn = (ms: number) => Math.ceil((Date.now() + ms) / MINUTE_MS) * MINUTE_MS - Date.now();
    vi.stubGlobal("setTimeout", (what: () => void, ms = 0) => run(what, untilTurn(ms)));
    return run;
  }

  it("keeps its connection, though it is handed everything after its timers", async () => {
    const run = throttleTimers();
    const asked = await asking();
    const { socket } = network;
    socket.onSend = ({ type }) => {
      if (type === "ping") run(() => socket.frame({ type: "pong" }), MINUTE_MS + 1);
    };
    await pass(10 * MINUTE_MS);
    expect(socket.sentOf("ping").length).toBeGreaterThan(2);
    socket.completed(-1);
    await pass();
    expect([network.sockets.length, asked.ended]).toEqual([1, true]);
  });

  it("finds out that its connection is lost all the same", async () => {
    throttleTimers();
    await asking();
    await pass(5 * MINUTE_MS);
    expect(network.sockets[0]?.closedByClient).toBe(true);
    expect(network.sockets.length).toBeGreaterThan(1);
  });
});
