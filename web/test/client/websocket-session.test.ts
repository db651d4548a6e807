import { describe, expect, it, vi } from "vitest";
import { Asked, pass } from "./asked.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

const ALMOST_AN_HOUR_MS = 3_541_000;

describe("a WebSocket between questions", () => {
  it("is used for the next one", async () => {
    const client = newClient();
    await asking(client);
    network.socket.completed(-1);
    await pass();
    new Asked(client);
    await pass();
    expect(network.sockets).toHaveLength(1);
  });

  it("gives way to another one when its token is about to expire", async () => {
    const client = newClient();
    await asking(client);
    const [first] = network.sockets;
    network.socket.completed(-1);
    await pass(ALMOST_AN_HOUR_MS);
    const asked = await asking(client);
    expect(network.sockets.map(({ protocols }) => protocols.at(-1))).toEqual(["bearer.token-1", "bearer.token-2"]);
    expect(first?.closedByClient).toBe(true);
    network.socket.delta(0, "still here");
    network.socket.completed(0);
    await pass();
    expect(asked.text).toBe("still here");
    expect(asked.error).toBeUndefined();
  });

  it("is closed when the client was closed before it opened", async () => {
    network.onSocket = () => {};
    const client = newClient();
    void client.open();
    await pass();
    client.close();
    network.socket.ready();
    await pass();
    expect(network.socket.closedByClient).toBe(true);
  });

  it("is closed when the client was closed before there was a session", async () => {
    const client = newClient();
    void client.open();
    client.close();
    await pass(20_000);
    expect(network.sockets.every(({ closedByClient }) => closedByClient)).toBe(true);
  });
});

describe("a paused answer over a WebSocket", () => {
  it("is paused again whenever the server begins to deliver it", async () => {
    const client = newClient();
    const asked = new Asked(client);
    asked.answer.pause();
    await pass();
    expect(network.socket.sentOf("response.pause")).toHaveLength(0);
    network.socket.start();
    await pass();
    expect(network.socket.sentOf("response.pause")).toHaveLength(1);
    // The response has another owner, from which it is delivered anew.
    network.socket.start();
    await pass();
    expect(network.socket.sentOf("response.pause")).toHaveLength(2);
    asked.answer.resume();
    network.socket.drop();
    await pass(10_000);
    network.socket.start();
    await pass();
    expect(network.socket.sentOf("response.pause")).toHaveLength(0);
  });
});

describe("the signal of a question", () => {
  it("is let go when the answer has ended", async () => {
    const { signal } = new AbortController();
    const removed = vi.spyOn(signal, "removeEventListener");
    const client = newClient();
    const answer = client.ask("What is Evenflow?", { signal });
    await pass();
    network.socket.start();
    network.socket.completed(-1);
    await answer.done;
    await pass();
    expect(removed).toHaveBeenCalledOnce();
  });
});
