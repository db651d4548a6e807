import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Answer, ClientStorage, ConnectOptions } from "../../src/client/api.ts";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork, json, poll, refusal } from "./fake-network.ts";

const RESPONSE = "GET /chat/message/rsp_1";

let network: FakeNetwork;
let storage: Map<string, string>;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  storage = new Map();
});

afterEach(() => {
  vi.useRealTimers();
});

const tab: ClientStorage = {
  getItem: (key) => storage.get(key) ?? null,
  setItem: (key, value) => storage.set(key, value),
};

/** The client of a page that was just loaded. */
function load(options: ConnectOptions = {}): EvenflowClient {
  return new EvenflowClient({ url: "http://test", transports: ["websocket", "long-poll"], storage: tab, ...options });
}

function resumable(client: EvenflowClient): Answer {
  if (client.resumable === null) throw new Error("there is nothing to resume");
  return client.resumable;
}

/** A page that is left in the middle of an answer, of which it has one piece. */
async function leave(): Promise<void> {
  const client = load();
  new Asked(client, "Why?");
  await pass();
  network.socket.start();
  network.socket.delta(0, "Be");
  await pass();
  client.close();
}

describe("a page that is loaded again in the middle of an answer", () => {
  it("can read it whole, in the same session and with the same token", async () => {
    await leave();
    const client = load();
    const answer = resumable(client);
    expect([answer.question, answer.responseId, answer.state, answer.text]).toEqual(["Why?", "rsp_1", "asking", ""]);
    await pass(1_000);
    expect(network.sockets).toHaveLength(1);
    const done = answer.done;
    await pass();
    expect(network.socket.sent).toEqual([{ type: "response.resume", response_id: "rsp_1", after: -1, epoch: 1 }]);
    network.socket.start({ message_id: "id-1" });
    network.socket.delta(1, "Because", 0);
    network.socket.completed(1);
    expect((await done).text).toBe("Because");
    expect(network.callsTo("POST /session")).toHaveLength(1);
    expect([client.resumable, load().resumable]).toEqual([null, null]);
  });

  it("goes on with the conversation after it", async () => {
    await leave();
    const client = load();
    new Asked(client, "And then?");
    await pass();
    expect(network.socket.sent).toMatchObject([{ message_id: "id-2", previous_message_id: "id-1" }]);
    expect(client.resumable).toBeNull();
  });

  it("sends a question again, as the same one, that nothing was heard of", async () => {
    const client = load();
    new Asked(client, "Why?");
    await pass();
    client.close();
    const answer = resumable(load());
    answer.on("delta", () => {});
    await pass();
    expect(network.sockets.map((socket) => socket.sent[0])).toEqual([
      { type: "chat.message", message_id: "id-1", previous_message_id: null, payload: { text: "Why?" } },
      { type: "chat.message", message_id: "id-1", previous_message_id: null, payload: { text: "Why?" } },
    ]);
  });

  it("can be loaded again and again", async () => {
    await leave();
    const client = load();
    void resumable(client).done;
    await pass();
    client.close();
    expect(resumable(load()).responseId).toBe("rsp_1");
  });

  it("can stop it instead", async () => {
    await leave();
    network.on("POST /chat/message/rsp_1/cancel", () => json(200, { response_id: "rsp_1", status: "cancelled" }));
    const client = load();
    const answer = resumable(client);
    await Promise.all([answer.stop(), pass(5_000)]);
    expect(answer.state).toBe("stopped");
    expect(network.callsTo("POST /chat/message/rsp_1/cancel")).toHaveLength(1);
    expect(load().resumable).toBeNull();
  });

  it("is told when the server has it no more, and forgets it", async () => {
    await leave();
    network.on(RESPONSE, () => refusal(410, { type: "not_found_error", code: "response_expired" }));
    const client = load({ transports: ["long-poll"] });
    const { done } = resumable(client);
    await expect(done).rejects.toMatchObject({ kind: "refused", body: { code: "response_expired" } });
    expect(load().resumable).toBeNull();
  });

  it("gets a new token for its session when the old one has expired meanwhile", async () => {
    await leave();
    await pass(3_600_000);
    void resumable(load()).done;
    await pass();
    expect(network.callsTo("POST /session").map((call) => call.body.session_id)).toEqual([undefined, "ses_1"]);
    expect(network.socket.protocols).toContain("bearer.token-2");
  });
});

describe("what a page keeps for the next one", () => {
  it("is nothing of another server's, tenant's or agent's", async () => {
    await leave();
    expect(load({ url: "http://other" }).resumable).toBeNull();
    expect(load({ tenant: "other" }).resumable).toBeNull();
    expect(load({ agent: "other" }).resumable).toBeNull();
  });

  it("is nothing where that is asked for", async () => {
    const client = load({ storage: null });
    new Asked(client);
    await pass();
    expect([storage.size, load({ storage: null }).resumable]).toEqual([0, null]);
  });

  it("is the tab's storage by default, where it has one", async () => {
    vi.stubGlobal("sessionStorage", tab);
    new Asked(new EvenflowClient({ url: "http://test", transports: ["websocket"] }));
    await pass();
    expect(storage.size).toBe(1);
  });

  it.each(["{", "null", '"text"', "7"])("may be nonsense: %s", async (text) => {
    await leave();
    for (const key of storage.keys()) storage.set(key, text);
    const client = load();
    expect(client.resumable).toBeNull();
    const asked = new Asked(client);
    await pass();
    network.socket.start();
    network.socket.completed(-1);
    await pass();
    expect([asked.ended, asked.error]).toEqual([true, undefined]);
  });

  it("may be refused by the browser", async () => {
    const full = (): never => {
      throw new DOMException("full", "QuotaExceededError");
    };
    const asked = new Asked(load({ storage: { getItem: full, setItem: full } }));
    await pass();
    network.socket.start();
    network.socket.completed(-1);
    await pass();
    expect([asked.ended, asked.error]).toEqual([true, undefined]);
  });

  it("says what did not work: the next page waits less for it, and tries it all the same", async () => {
    network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
    network.on(RESPONSE, poll(0, "", 0, "completed"));
    network.onSocket = () => {};
    new Asked(load());
    await pass(2_000);
    const next = new Asked(load());
    await pass(500);
    expect(next.events[0]).toMatchObject({ transport: "long-poll" });
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    const last = new Asked(load());
    await pass();
    expect(last.events[0]).toEqual({ type: "transport", transport: "websocket", fallback: false });
  });
});
