import { describe, expect, it } from "vitest";
import { Asked, pass } from "./asked.ts";
import type { FakeSocket } from "./fake-socket.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

/** The server says that it is leaving. */
function leaving(socket: FakeSocket, afterMs: number): void {
  socket.frame({ type: "reconnect", reason: "drain", after_ms: afterMs });
}

/** The sockets of an answer that was moved on as far as the resume: the one that delivers, and the one that was asked. */
async function movingOn(): Promise<{ asked: Asked; first: FakeSocket; second: FakeSocket }> {
  const asked = await asking();
  const first = network.socket;
  first.delta(0, "a");
  leaving(first, 700);
  await pass(700);
  return { asked, first, second: network.socket };
}

function resumes(socket: FakeSocket): unknown[] {
  return socket.sentOf("response.resume").map((frame) => frame.after);
}

function begin(socket: FakeSocket, nextIndex: number, extra: Record<string, unknown> = {}): void {
  socket.start({ message_id: "id-1", next_index: nextIndex, ...extra });
}

describe("a server that is leaving in the middle of an answer", () => {
  it("is read from until its slot, and until the answer goes on over the next connection", async () => {
    const asked = await asking();
    const first = network.socket;
    leaving(first, 2_000);
    await pass(1_999);
    first.delta(0, "a");
    await pass();
    expect([asked.text, network.sockets.length]).toEqual(["a", 1]);
    await pass(1);
    const second = network.socket;
    expect(network.sockets).toHaveLength(2);
    expect(second.sent).toEqual([{ type: "response.resume", response_id: "rsp_1", after: 0, epoch: 1 }]);
    first.delta(1, "b");
    await pass();
    expect([asked.text, first.closedByClient]).toEqual(["ab", false]);
    begin(second, 1);
    await pass(1_000);
    // What only the first one has brought, the second one may not even know yet.
    expect(first.sentOf("response.ack").at(-1)).toMatchObject({ index: 1 });
    expect(second.sentOf("response.ack")).toEqual([]);
    second.delta(2, "bc", 1);
    await pass();
    expect([asked.text, first.closedByClient]).toEqual(["abc", true]);
    second.delta(3, "d");
    second.completed(3);
    await pass();
    expect(asked.text).toBe("abcd");
    expect(asked.of("reconnecting").concat(asked.of("restarted") as never[])).toEqual([]);
  });

  it("has what it still sent taken away, where the next owner did not get it on record", async () => {
    const { asked, first, second } = await movingOn();
    first.delta(1, "lost");
    await pass();
    begin(second, 1, { epoch: 2 });
    second.restarted(1, 0, 2);
    second.delta(2, "b");
    second.completed(2);
    await pass();
    expect(asked.text).toBe("ab");
  });

  it("is not heard any more once the next one has begun", async () => {
    const { asked, first, second } = await movingOn();
    begin(second, 1);
    await pass();
    first.delta(1, "late");
    second.delta(1, "b");
    second.completed(1);
    await pass();
    expect(asked.text).toBe("ab");
  });

  it("is heard as long as the next one says something else", async () => {
    const { asked, first, second } = await movingOn();
    leaving(second, 60_000);
    first.delta(1, "b");
    first.completed(1);
    await pass();
    expect([asked.text, asked.ended]).toEqual(["ab", true]);
  });

  it("may end the answer before the next one has begun it, which is kept", async () => {
    const { asked, first, second } = await movingOn();
    first.completed(0);
    await pass();
    expect(asked.events.map((event) => event.type)).toEqual(["transport", "accepted", "delta", "completed"]);
    expect([first.closedByClient, second.closedByClient]).toEqual([true, false]);
    leaving(second, 100);
    await pass(100);
    expect(second.closedByClient).toBe(true);
  });

  it("may end the answer before the next connection is open, over which it is then not asked for", async () => {
    network.onSocket = (socket) => setTimeout(() => socket.ready(), 500);
    const client = newClient();
    const asked = new Asked(client);
    await pass(500);
    const first = network.socket;
    first.start();
    leaving(first, 0);
    await pass(100);
    expect(network.sockets).toHaveLength(2);
    first.completed(-1);
    await pass(1_000);
    expect([asked.ended, network.socket.sent]).toEqual([true, []]);
    new Asked(client, "And then?");
    await pass();
    expect(network.sockets).toHaveLength(2);
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
  });

  it("delivers on while no other connection can be had, which is tried for again and again", async () => {
    const asked = await asking();
    const first = network.socket;
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    leaving(first, 100);
    await pass(100 + 250 + 500 + 500);
    expect(network.sockets).toHaveLength(5);
    first.delta(0, "still here");
    await pass();
    expect([asked.text, asked.of("reconnecting")]).toEqual(["still here", []]);
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    await pass(2_000);
    expect(resumes(network.socket)).toEqual([0]);
  });

  it("delivers on while the resume is refused, and it is asked for again", async () => {
    const { asked, first, second } = await movingOn();
    second.frame({
      type: "system.busy",
      retry_after_ms: 1_000,
      error: { type: "overloaded_error", code: "response_elsewhere", message: "later" },
    });
    first.delta(1, "b");
    await pass(1_249);
    expect([asked.text, resumes(second)]).toEqual(["ab", [0]]);
    await pass(1);
    expect(resumes(second)).toEqual([0, 1]);
    begin(second, 2);
    second.delta(2, "c");
    second.completed(2);
    await pass();
    expect([asked.text, asked.of("waiting")]).toEqual(["abc", []]);
  });

  it("delivers on when the next connection refuses the resume and is lost", async () => {
    const { asked, first, second } = await movingOn();
    second.frame({
      type: "system.busy",
      retry_after_ms: 1_000,
      error: { type: "overloaded_error", code: "store_behind", message: "later" },
    });
    await pass(500);
    second.drop();
    first.delta(1, "b");
    await pass(750);
    expect([asked.text, asked.of("reconnecting")]).toEqual(["ab", []]);
    expect(resumes(network.socket)).toEqual([1]);
    expect(network.sockets).toHaveLength(3);
  });

  it("delivers on when the next connection is lost, and another one is opened", async () => {
    const { asked, first, second } = await movingOn();
    second.drop();
    await pass(250);
    expect(network.sockets).toHaveLength(3);
    first.delta(1, "b");
    begin(network.socket, 1);
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect([asked.text, asked.of("reconnecting")]).toEqual(["ab", []]);
  });

  it("may be lost while the next one is asked: that one goes on", async () => {
    const { asked, first, second } = await movingOn();
    first.drop(1001);
    await pass();
    begin(second, 1);
    second.delta(1, "b");
    second.completed(1);
    await pass();
    expect([asked.text, asked.of("reconnecting"), network.sockets.length]).toEqual(["ab", [], 2]);
  });

  it("is come back from as from any loss when both connections are lost", async () => {
    const { asked, first, second } = await movingOn();
    first.drop(1001);
    second.drop();
    await pass(250);
    expect(asked.of("reconnecting")).toHaveLength(1);
    expect(resumes(network.socket)).toEqual([0]);
    expect(network.sockets).toHaveLength(3);
  });

  it("has its slot kept when it is gone before that", async () => {
    const asked = await asking();
    leaving(network.socket, 2_000);
    await pass(500);
    network.socket.drop(1001);
    await pass(1_749);
    expect(asked.of("reconnecting")).toMatchObject([{ delayMs: 1_750, reason: expect.any(String) }]);
    expect(network.sockets).toHaveLength(1);
    await pass(1);
    expect(network.sockets).toHaveLength(2);
  });

  it("is followed by another one that is leaving too", async () => {
    const { asked, second } = await movingOn();
    begin(second, 1);
    leaving(second, 300);
    await pass(300);
    const third = network.socket;
    begin(third, 1);
    third.delta(1, "b");
    third.completed(1);
    await pass();
    expect([asked.text, second.closedByClient, network.sockets.length]).toEqual(["ab", true, 3]);
  });

  it("is told to stop the model as well as the next one, when the reader stops in between", async () => {
    const client = newClient();
    const asked = await asking(client);
    const first = network.socket;
    leaving(first, 100);
    await pass(100);
    void asked.answer.stop();
    begin(network.socket, 0);
    await pass();
    expect([first, network.socket].map((socket) => socket.sentOf("response.cancel").length)).toEqual([1, 1]);
  });

  it("is not waited for, nor the next one, when neither confirms a stop", async () => {
    const client = newClient();
    const asked = await asking(client);
    leaving(network.socket, 100);
    await pass(100);
    void asked.answer.stop();
    await pass(3_000);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
  });

  it("is asked nothing new: the next question opens another connection, before the slot", async () => {
    const client = newClient();
    await asking(client);
    const first = network.socket;
    leaving(first, 60_000);
    first.completed(-1);
    await pass();
    new Asked(client, "And then?");
    await pass();
    expect(first.sentOf("chat.message")).toHaveLength(1);
    expect(network.socket.sent).toMatchObject([{ type: "chat.message", message_id: "id-2" }]);
  });
});

describe("a server that is leaving while nothing is asked", () => {
  it("is left at the slot, and the next connection is opened with the next question", async () => {
    const client = newClient();
    await client.open();
    const first = network.socket;
    leaving(first, 5_000);
    await pass(4_999);
    expect(first.closedByClient).toBe(false);
    await pass(60_000);
    expect([first.closedByClient, network.sockets.length]).toEqual([true, 1]);
    new Asked(client);
    await pass();
    expect(network.sockets).toHaveLength(2);
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
  });
});
