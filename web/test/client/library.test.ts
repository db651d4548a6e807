import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type * as Api from "../../api.d.ts";
import { pass } from "./asked.ts";
import { FakeEventStream } from "./fake-event-stream.ts";
import { FakeNetwork, json, poll } from "./fake-network.ts";

/** The library as it is published: its names are short, and it is of the types that were reviewed. */
let library: typeof Api;
let network: FakeNetwork;

beforeAll(async () => {
  // `npm test` builds it before.
  library = (await import(new URL("../../lib/index.js", import.meta.url).href)) as typeof Api;
});

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
  vi.stubGlobal("location", { origin: "http://page" });
});

afterEach(() => {
  vi.useRealTimers();
});

const SESSION = { session_id: "ses_1", token: "t", expires_at: "2099-01-01T00:00:00Z", ws_url: "ws://test/ws" };

async function textOf(answer: Api.Answer): Promise<string> {
  let text = "";
  for await (const event of answer) {
    if (event.type === "delta") text += event.text;
    if (event.type === "restarted") text = text.slice(0, event.keep);
  }
  return text;
}

describe("the library", () => {
  it("needs nothing but the page's own address", async () => {
    const client = library.connect();
    await pass();
    expect([client.connection, client.transport]).toEqual(["open", "websocket"]);
    const text = textOf(client.ask("Why?"));
    await pass();
    network.socket.start();
    network.socket.delta(0, "lost");
    network.socket.restarted(1, -1);
    network.socket.delta(2, "Because.");
    await pass(1_000);
    network.socket.completed(2);
    expect(await text).toBe("Because.");
    expect(network.socket.sent.map((frame) => frame.type)).toEqual(["chat.message", "response.ack", "ping"]);
    client.close();
    expect(network.socket.closedByClient).toBe(true);
  });

  it("has all that its types say, by these names", async () => {
    const client = library.connect({ storage: null });
    const ofClient = ["ask", "messages", "follow", "share", "end", "on", "reconnect", "close"] as const;
    expect(ofClient.filter((name) => typeof client[name] !== "function")).toEqual([]);
    const answer = client.follow({ messageId: "m", responseId: "r", question: "Why?" });
    const ofAnswer = ["on", "stop", "pause", "resume"] as const;
    expect(ofAnswer.filter((name) => typeof answer[name] !== "function")).toEqual([]);
  });

  it("reads what the server sends by the server's names", async () => {
    const called = { kind: "call", call: 1, id: "call_1", name: "weather" };
    const source = { kind: "data", name: "source", value: { url: "https://example.com/", title: "Seas" } };
    const answer = {
      text: "Cold.",
      parts: [
        { at: 0, ...called },
        { at: 5, ...source },
      ],
    };
    const said = { message_id: "m1", response_id: "rsp_0", text: "And then?", status: "completed", answer };
    network.on("GET /session/ses_1/messages", () => json(200, { messages: [said], next_before: null }));
    const client = library.connect();
    await pass();
    const [message] = (await client.messages()).messages;
    const tool = { type: "tool", call: 1, id: "call_1", name: "weather", arguments: "", isComplete: false };
    const seas = { type: "source", url: "https://example.com/", title: "Seas" };
    expect(message?.parts).toEqual([expect.objectContaining(tool), { type: "text", text: "Cold." }, seas]);
    const live = client.ask("Why?");
    await pass();
    network.socket.start();
    for (const [index, part] of [called, source].entries()) network.socket.entry(index, part);
    await pass();
    expect(live.parts).toEqual([expect.objectContaining(tool), seas]);
  });

  it("opens nothing on a server, and says what is missing there once something is asked", async () => {
    for (const name of ["location", "fetch", "WebSocket", "sessionStorage"]) vi.stubGlobal(name, undefined);
    const client = library.connect();
    const other = library.connect({ url: "http://test" });
    await pass(60_000);
    expect([client.connection, network.calls, network.sockets]).toEqual(["connecting", [], []]);
    await expect(client.ask("Why?").done).rejects.toThrow("connect() needs a url, and fetch");
    await expect(other.ask("Why?").done).rejects.toThrow("connect() needs a url, and fetch");
  });

  it("knows what the server offers to ask, and says which message another try is to replace", async () => {
    network.on("POST /session", () => json(201, { ...SESSION, suggestions: ["Why?", "How?"] }));
    const client = library.connect({ storage: null });
    expect(client.suggestions).toEqual([]);
    await pass();
    expect(client.suggestions).toEqual(["Why?", "How?"]);
    client.ask("Why?", { replaces: "id-0" });
    await pass();
    expect(network.socket.sent[0]).toMatchObject({ type: "chat.message", replaces: "id-0" });
  });

  it("streams and polls", async () => {
    network.on("GET /chat/message/rsp_1/events", (call) => {
      const stream = new FakeEventStream(call);
      stream.delta(0, "stre");
      stream.delta(1, "amed");
      stream.completed(1);
      return stream.response;
    });
    network.onEach("GET /chat/message/rsp_1", [poll(0, "pol", 1, "streaming"), poll(1, "led", 1, "completed")]);
    const streamed = textOf(library.connect({ url: "http://test", transports: ["sse"] }).ask("Why?"));
    const polled = textOf(library.connect({ url: "http://test", transports: ["long-poll"] }).ask("Why?"));
    await pass();
    expect(await Promise.all([streamed, polled])).toEqual(["streamed", "polled"]);
  });

  it("goes on after a reload, and pauses, and stops", async () => {
    const kept = new Map<string, string>();
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
    };
    const before = library.connect({ url: "http://test", storage });
    const broken = before.ask("Why?").done;
    await pass();
    network.socket.start();
    await pass();
    before.close();
    await expect(broken).rejects.toBeInstanceOf(library.ClosedError);
    expect([...kept.values()].join()).toContain('"s":"ses_1"');
    const answer = library.connect({ url: "http://test", storage }).resumable;
    if (answer === null) throw new Error("there is nothing to resume");
    const heard: string[] = [];
    answer.on("state", (state) => heard.push(state));
    await pass();
    network.socket.start({ message_id: "id-1" });
    network.socket.delta(0, "Because");
    await pass();
    answer.pause();
    answer.resume();
    void answer.stop();
    network.socket.completed(0, { finish_reason: "cancelled" });
    const { text, finishReason } = await answer.done;
    expect([text, finishReason]).toEqual(["Because", "cancelled"]);
    expect(heard).toEqual(["streaming", "paused", "streaming", "stopped"]);
    const sent = network.socket.sent.map((frame) => String(frame.type).split(".")[1]);
    expect(sent).toEqual(["resume", "pause", "continue", "cancel", "ack"]);
  });

  it("tells the addresses of a share by the names of its types", async () => {
    network.on("POST /session", () => json(201, SESSION));
    const told = { token: "eyJ", expires_at: SESSION.expires_at, ws_url: "/ws", http_url: "" };
    network.on("POST /session/ses_1/share", () => json(201, told));
    const { httpUrl, websocketUrl } = await library.connect({ url: "http://test", storage: null }).share();
    expect([httpUrl, websocketUrl]).toEqual(["http://test", "ws://test/ws"]);
  });

  it("tells its errors apart", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop(4009));
    const error = await library
      .connect({ url: "http://test", transports: ["websocket"] })
      .ask("Why?")
      .done.catch((reason: unknown) => reason);
    expect(library.isEvenflowError(error)).toBe(true);
    expect(error).toBeInstanceOf(library.ReplacedError);
    expect(library.isEvenflowError(new Error("another"))).toBe(false);
  });
});
