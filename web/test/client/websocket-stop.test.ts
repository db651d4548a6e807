import { describe, expect, it } from "vitest";
import { Asked, pass } from "./asked.ts";
import { json } from "./fake-network.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

describe("stopping an answer over a WebSocket", () => {
  it("cancels and waits for the server's word", async () => {
    const client = newClient();
    const asked = await asking(client);
    network.socket.delta(0, "a");
    void asked.answer.stop();
    await pass();
    expect(network.socket.sentOf("response.cancel")).toEqual([{ type: "response.cancel", response_id: "rsp_1" }]);
    network.socket.completed(0, { finish_reason: "cancelled" });
    await pass();
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled", lastIndex: 0 });
    void asked.answer.stop();
    await pass(5_000);
    expect(network.socket.sentOf("response.cancel")).toHaveLength(1);
  });

  it("cancels as soon as the question is accepted, when it was not yet", async () => {
    const client = newClient();
    const asked = new Asked(client);
    await pass();
    void asked.answer.stop();
    network.socket.start();
    await pass();
    expect(network.socket.sentOf("response.cancel")).toHaveLength(1);
  });

  it("does not wait for a server that says nothing", async () => {
    network.on("POST /chat/message/rsp_1/cancel", () => json(200, { response_id: "rsp_1", status: "cancelled" }));
    const client = newClient();
    const asked = await asking(client);
    void asked.answer.stop();
    await pass(3_000);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
    expect(network.socket.closedByClient).toBe(true);
    expect(network.callsTo("POST /chat/message/rsp_1/cancel")).toHaveLength(1);
  });

  it("ends at once, and by HTTP, while there is no connection", async () => {
    network.on("POST /chat/message/rsp_1/cancel", () => json(200, { response_id: "rsp_1", status: "cancelled" }));
    const client = newClient();
    const asked = await asking(client);
    network.socket.drop();
    await pass();
    void asked.answer.stop();
    await pass();
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
    expect(network.callsTo("POST /chat/message/rsp_1/cancel")).toHaveLength(1);
    await pass(10_000);
    expect(network.sockets).toHaveLength(1);
  });

  it("reaches a server that is out of reach as soon as it is back", async () => {
    let isReached = false;
    const cancel = "POST /chat/message/rsp_1/cancel";
    network.on(cancel, () => {
      if (!isReached) throw new TypeError("Failed to fetch");
      return json(200, { response_id: "rsp_1", status: "cancelled" });
    });
    const client = newClient();
    const asked = await asking(client);
    network.socket.drop();
    await pass();
    void asked.answer.stop();
    await pass(60_000);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
    isReached = true;
    await pass(3_000);
    const tries = network.callsTo(cancel).length;
    expect(tries).toBeGreaterThan(10);
    await pass(60_000);
    expect(network.callsTo(cancel)).toHaveLength(tries);
  });

  it("is not tried for by a client that was closed", async () => {
    const cancel = "POST /chat/message/rsp_1/cancel";
    network.on(cancel, () => {
      throw new TypeError("Failed to fetch");
    });
    const client = newClient();
    const asked = await asking(client);
    network.socket.drop();
    await pass();
    void asked.answer.stop();
    await pass();
    client.close();
    await pass(3_000);
    const tries = network.callsTo(cancel).length;
    await pass(60_000);
    expect(network.callsTo(cancel)).toHaveLength(tries);
  });

  it("ends at once while the session is being made", async () => {
    network.on("POST /session", () => new Promise(() => {}));
    const asked = new Asked(newClient());
    await pass();
    void asked.answer.stop();
    await pass();
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
  });

  it("takes back a question that waits for a busy server", async () => {
    const client = newClient();
    const asked = new Asked(client);
    await pass();
    network.socket.frame({
      type: "system.busy",
      retry_after_ms: 5_000,
      message_id: "id-1",
      error: { type: "overloaded_error", code: "queue_full", message: "busy" },
    });
    await pass();
    void asked.answer.stop();
    await pass(6_000);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
  });
});
