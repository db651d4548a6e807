import { describe, expect, it } from "vitest";
import type { OtherMessage } from "../../src/client/api.ts";
import { RefusedError } from "../../src/client/errors.ts";
import { pass } from "./asked.ts";
import { json, refusal } from "./fake-network.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

const MESSAGES = "GET /session/ses_1/messages";
const SAID = {
  message_id: "m1",
  previous_message_id: null,
  response_id: "rsp_1",
  text: "How cold is it?",
  status: "completed",
  finish_reason: "stop",
  answer: {
    text: "🌊 It is cold.",
    parts: [
      { at: 0, kind: "reasoning", text: "Hm." },
      { at: 2, kind: "call", call: 0, id: "call_1", name: "weather" },
      { at: 2, kind: "result", id: "call_1", text: "-4" },
    ],
  },
};

describe("the conversation", () => {
  it("is read page by page, oldest first, with the parts where they belong", async () => {
    const failed = { message_id: "m2", response_id: "rsp_2", text: null, status: "error", answer: { text: "" } };
    const error = { type: "upstream_error", code: "upstream_failed", message: "broken" };
    network.on(MESSAGES, () => json(200, { messages: [SAID, { ...failed, error }], next_before: "m1" }));
    const { messages, before } = await newClient().messages({ limit: 2, before: "m3" });
    expect(network.callsTo(MESSAGES).map(({ path }) => path)).toEqual(["/session/ses_1/messages?limit=2&before=m3"]);
    expect(before).toBe("m1");
    expect(messages[0]).toEqual({
      messageId: "m1",
      responseId: "rsp_1",
      question: "How cold is it?",
      versions: ["m1"],
      status: "completed",
      text: "🌊 It is cold.",
      parts: [
        { type: "reasoning", text: "Hm." },
        { type: "text", text: "🌊 " },
        expect.objectContaining({ type: "tool", name: "weather", result: "-4" }),
        { type: "text", text: "It is cold." },
      ],
      finishReason: "stop",
      error: null,
    });
    expect(messages[1]).toMatchObject({ question: "", status: "error", parts: [], finishReason: null, error });
  });

  it("goes on from its last message, wherever that was asked", async () => {
    network.on(MESSAGES, () => json(200, { messages: [SAID], next_before: null }));
    const client = newClient();
    await client.messages();
    client.ask("And then?");
    await pass();
    expect(network.socket.sentOf("chat.message")[0]).toMatchObject({ previous_message_id: "m1" });
  });

  it("has versions, each of which is read and gone on with", async () => {
    const edited = { ...SAID, message_id: "m3", versions: ["m1", "m3"] };
    network.on(MESSAGES, ({ path }) =>
      json(200, { messages: [path.includes("through=m1") ? { ...SAID, versions: ["m1", "m3"] } : edited] }),
    );
    const client = newClient();
    expect((await client.messages()).messages[0]?.versions).toEqual(["m1", "m3"]);
    expect((await client.messages({ through: "m1" })).messages[0]?.messageId).toBe("m1");
    client.ask("And then?", { parent: "m1" });
    await pass();
    const sent = { previous_message_id: "m3", parent_message_id: "m1" };
    expect(network.socket.sentOf("chat.message")[0]).toMatchObject(sent);
  });

  it("keeps what is typed where the session is kept, until that ends", async () => {
    const kept = new Map<string, string>();
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
    };
    const client = newClient({ storage });
    expect(client.draft).toBeNull();
    client.draft = { text: "Half of a", replaces: "m1" };
    expect(newClient({ storage }).draft).toEqual({ text: "Half of a", replaces: "m1" });
    expect(newClient({ storage: null }).draft).toBeNull();
    network.on("DELETE /session/ses_1", () => new Response(null, { status: 204 }));
    await client.end();
    expect(newClient({ storage }).draft).toBeNull();
  });

  it("can be none of this server's", async () => {
    const error = { type: "not_found_error", code: "session_ended" };
    network.on(MESSAGES, () => refusal(410, error));
    await expect(newClient().messages()).rejects.toBeInstanceOf(RefusedError);
  });

  it("is followed where somebody else asks in it", async () => {
    const client = newClient();
    await client.open();
    const heard: OtherMessage[] = [];
    client.on("message", (message) => heard.push(message));
    network.socket.frame({ type: "session.message", message_id: "m7", response_id: "rsp_7", text: "Else?" });
    expect(heard).toEqual([{ messageId: "m7", responseId: "rsp_7", question: "Else?", replaces: null, parent: null }]);
    const answer = client.follow(heard[0] as OtherMessage);
    expect([answer.question, answer.messageId, answer.responseId]).toEqual(["Else?", "m7", "rsp_7"]);
    const done = answer.done;
    await pass();
    expect(network.socket.sent).toEqual([{ type: "response.resume", response_id: "rsp_7", after: -1, epoch: 1 }]);
    network.socket.start({ response_id: "rsp_7", message_id: "m7" });
    network.socket.delta(0, "So.");
    network.socket.completed(0, { response_id: "rsp_7" });
    expect((await done).text).toBe("So.");
    client.ask("Mine?");
    await pass();
    expect(network.socket.sentOf("chat.message")[0]).toMatchObject({ previous_message_id: "m7" });
  });

  it("is one of before, or new", async () => {
    const kept = new Map<string, string>();
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
    };
    const client = newClient({ storage });
    expect(client.isResumed).toBe(false);
    await client.open();
    expect(newClient({ storage }).isResumed).toBe(true);
  });

  it("is shared with who only reads, whole or one answer of it", async () => {
    const share = "POST /session/ses_1/share";
    const told = { token: "eyJ", expires_at: "2099-01-01T00:00:00Z", http_url: "http://test", ws_url: "ws://test/ws" };
    network.on(share, () => json(201, told));
    const client = newClient();
    expect(await client.share()).toEqual({
      token: "eyJ",
      expiresAt: "2099-01-01T00:00:00Z",
      httpUrl: "http://test",
      websocketUrl: "ws://test/ws",
    });
    await client.share({ responseId: "rsp_1", ttlSeconds: 60, name: "Ann", names: true });
    expect(network.callsTo(share).map(({ body }) => body)).toEqual([
      {},
      { response_id: "rsp_1", ttl_seconds: 60, for: "Ann", names: true },
    ]);
    network.on(share, () => refusal(403, { type: "permission_error", code: "not_permitted" }));
    await expect(client.share()).rejects.toBeInstanceOf(RefusedError);
    expect(network.callsTo("POST /session")).toHaveLength(1);
  });

  it("ends, and what is asked next begins another one", async () => {
    network.on("DELETE /session/ses_1", () => new Response(null, { status: 204 }));
    const client = newClient();
    const asked = await asking(client);
    network.socket.completed(-1);
    await asked.answer.done;
    await client.end();
    expect(network.callsTo("DELETE /session/ses_1")).toHaveLength(1);
    expect(network.socket.closedByClient).toBe(true);
    client.ask("Anew?");
    await pass();
    expect(network.callsTo("POST /session").map(({ body }) => body.session_id)).toEqual([undefined, undefined]);
    expect(network.socket.sentOf("chat.message")[0]).toMatchObject({ previous_message_id: null });
  });

  it("says how much of it the model is not told", async () => {
    const asked = await asking();
    expect(asked.of("accepted")[0]).not.toHaveProperty("historyDropped");
    const long = newClient();
    const answer = long.ask("And?");
    const accepted: unknown[] = [];
    answer.on("accepted", (event) => accepted.push(event));
    await pass();
    network.socket.start({ message_id: answer.messageId, history_dropped: 4 });
    await pass();
    expect(accepted).toMatchObject([{ historyDropped: 4 }]);
  });

  it("says it again where the model has refused it as too long, and is told less", async () => {
    const asked = await asking();
    network.socket.start({ history_dropped: 2, history_dropped_by: "model" });
    await pass();
    expect(asked.of("accepted")).toMatchObject([{}, { historyDropped: 2, historyDroppedBy: "model" }]);
    network.socket.start({ history_dropped: 2, history_dropped_by: "model" });
    await pass();
    expect(asked.of("accepted")).toHaveLength(2);
  });
});
