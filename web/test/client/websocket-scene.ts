import { afterEach, beforeEach, vi } from "vitest";
import type { ConnectOptions } from "../../src/client/api.ts";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork } from "./fake-network.ts";

/** The network of the test that runs; it has a WebSocket, and a clock that stands still unless it is moved. */
export let network: FakeNetwork;

/** Gives each test of a file a network of its own. */
export function useFakeNetwork(): void {
  beforeEach(() => {
    vi.useFakeTimers();
    network = new FakeNetwork();
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

export function newClient(options: ConnectOptions = {}): EvenflowClient {
  return new EvenflowClient({ url: "http://test", transports: ["websocket", "long-poll"], ...options });
}

/** A question that the server has begun to answer. */
export async function asking(client = newClient()): Promise<Asked> {
  const asked = new Asked(client);
  await pass();
  network.socket.start();
  await pass();
  return asked;
}

/** The server of the newest connection lives: it answers pings. */
export function answerPings(): void {
  const { socket } = network;
  socket.onSend = ({ type }) => {
    if (type === "ping") socket.frame({ type: "pong" });
  };
}
