import { describe, expect, it } from "vitest";
import { AnswerError, BusyError, ProtocolError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { answerPings, asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

describe("an answer over a WebSocket", () => {
  it("is opened with the subprotocols, the compact one first, and the token", async () => {
    new Asked(newClient());
    await pass();
    expect(network.socket.url).toBe("ws://127.0.0.1:8080/ws");
    expect(network.socket.protocols).toEqual(["evenflow.v1.compact", "evenflow.v1", "bearer.token-1"]);
    expect(network.socket.sent).toEqual([
      {
        type: "chat.message",
        message_id: "id-1",
        previous_message_id: null,
        payload: { text: "What is Evenflow?" },
      },
    ]);
  });

  it("arrives whole", async () => {
    const asked = await asking();
    network.socket.delta(0, "Even");
    network.socket.delta(2, "flow.", 1);
    network.socket.completed(2);
    await pass();
    expect(asked.events).toEqual([
      { type: "transport", transport: "websocket", fallback: false },
      { type: "accepted", responseId: "rsp_1", messageId: "id-1" },
      { type: "delta", text: "Even", from: 0, index: 0 },
      { type: "delta", text: "flow.", from: 1, index: 2 },
      {
        type: "completed",
        finishReason: "stop",
        lastIndex: 2,
        usage: { prompt_tokens: 4, completion_tokens: 7 },
        degraded: false,
      },
    ]);
    expect(asked.ended).toBe(true);
  });

  it("arrives by evenflow.v1 too, where the server has chosen that", async () => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.start({ stream: undefined });
    network.socket.frame({ type: "chat.response.delta", response_id: "rsp_1", delta: "Even", index: 0 });
    network.socket.frame({ type: "chat.response.delta", response_id: "rsp_1", delta: "flow.", index: 2, from: 1 });
    network.socket.completed(2);
    await pass();
    expect([asked.text, asked.ended]).toEqual(["Evenflow.", true]);
    expect(network.socket.sentOf("response.resume")).toEqual([]);
  });

  it("takes each index once, and asks for what is missing", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.delta(0, "a");
    network.socket.delta(2, "c");
    network.socket.delta(3, "d");
    await pass();
    expect(network.socket.sentOf("response.resume")).toEqual([
      { type: "response.resume", response_id: "rsp_1", after: 0, epoch: 1 },
    ]);
    network.socket.start();
    for (const [index, text] of ["b", "c", "d"].entries()) network.socket.delta(index + 1, text);
    network.socket.completed(3);
    await pass();
    expect(asked.text).toBe("abcd");
  });

  it("asks for the end of the text when only the last frame has come", async () => {
    const asked = await asking();
    network.socket.completed(1);
    await pass();
    expect(asked.ended).toBe(false);
    expect(network.socket.sentOf("response.resume")).toHaveLength(1);
    network.socket.start();
    network.socket.delta(1, "late", 0);
    network.socket.completed(1);
    await pass();
    expect([asked.text, asked.ended]).toEqual(["late", true]);
  });

  it("asks again after a frame that it cannot read", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.raw('{"type":"chat.response.del');
    await pass();
    expect(network.socket.sentOf("response.resume")).toEqual([
      { type: "response.resume", response_id: "rsp_1", after: 0, epoch: 1 },
    ]);
    network.socket.start();
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect(asked.text).toBe("ab");
  });

  it("sends the question again, under the same id, when what it cannot read may have been its acceptance", async () => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.raw("not json");
    await pass();
    expect(network.socket.sentOf("chat.message").map((frame) => frame.message_id)).toEqual(["id-1", "id-1"]);
    network.socket.start();
    network.socket.completed(-1);
    await pass();
    expect(asked.error).toBeUndefined();
  });

  it("gives up on a server that never sends what is missing", async () => {
    const asked = await asking();
    for (let round = 0; round < 4; round += 1) {
      network.socket.delta(9, "far ahead");
      await pass();
      network.socket.start();
      await pass();
    }
    expect(asked.error).toBeInstanceOf(ProtocolError);
    expect(network.socket.sentOf("response.resume")).toHaveLength(3);
  });

  it("replaces the text when the model begins again", async () => {
    const asked = await asking();
    network.socket.delta(0, "keep ");
    network.socket.delta(1, "drop");
    network.socket.frame({
      type: "chat.response.restarted",
      session_id: "ses_1",
      response_id: "rsp_1",
      from_index: 0,
      attempt: 2,
      index: 2,
    });
    network.socket.delta(3, "this");
    network.socket.completed(3);
    await pass();
    expect(asked.of("restarted")).toMatchObject([{ type: "restarted", keep: 5 }]);
    expect(asked.text).toBe("keep this");
  });

  it("fetches again what a restart cuts in the middle of a joined frame", async () => {
    const asked = await asking();
    network.socket.delta(3, "abcd", 0);
    network.socket.frame({
      type: "chat.response.restarted",
      response_id: "rsp_1",
      from_index: 1,
      attempt: 2,
      index: 4,
    });
    await pass();
    expect(asked.text).toBe("");
    expect(network.socket.sentOf("response.resume")[0]).toMatchObject({ after: -1 });
  });

  it("does not mix in frames of another response", async () => {
    const asked = await asking();
    network.socket.frame({
      type: "chat.response.delta",
      session_id: "ses_1",
      response_id: "rsp_0",
      delta: "x",
      index: 0,
    });
    network.socket.completed(5, { response_id: "rsp_0" });
    network.socket.frame({
      type: "error",
      response_id: "rsp_0",
      error: { type: "not_found_error", code: "response_expired", message: "gone" },
    });
    network.socket.delta(0, "ours");
    network.socket.completed(0);
    await pass();
    expect([asked.text, asked.error]).toEqual(["ours", undefined]);
  });

  it("acknowledges about once a second, and at the end, and only what is new", async () => {
    await asking();
    answerPings();
    network.socket.delta(0, "a");
    network.socket.delta(1, "b");
    await pass(1_000);
    await pass(1_000);
    network.socket.delta(2, "c");
    network.socket.completed(2);
    await pass();
    expect(network.socket.sentOf("response.ack")).toEqual([
      { type: "response.ack", response_id: "rsp_1", index: 1 },
      { type: "response.ack", response_id: "rsp_1", index: 2 },
    ]);
  });

  it("tells of a lag", async () => {
    const asked = await asking();
    network.socket.frame({ type: "lag", response_id: "rsp_1", behind_deltas: 80, behind_ms: 11_000 });
    await pass();
    expect(asked.of("lag")).toEqual([{ type: "lag", behindDeltas: 80, behindMs: 11_000 }]);
  });

  it("tells where it waits for the model", async () => {
    const asked = await asking();
    network.socket.frame({ type: "chat.response.queued", response_id: "rsp_1", position: 3, expected_seconds: 4 });
    network.socket.frame({ type: "chat.response.queued", response_id: "rsp_1", position: 1 });
    await pass();
    expect(asked.of("queued")).toEqual([
      { type: "queued", position: 3, expectedSeconds: 4 },
      { type: "queued", position: 1, expectedSeconds: null },
    ]);
  });

  it("throws the error that ended the answer, after the text before it", async () => {
    const asked = await asking();
    network.socket.delta(0, "so far");
    network.socket.frame({
      type: "chat.response.error",
      response_id: "rsp_1",
      message_id: "id-1",
      last_index: 0,
      error: { type: "overloaded_error", code: "draining", message: "gone" },
    });
    await pass(60_000);
    expect(asked.text).toBe("so far");
    expect(asked.error).toBeInstanceOf(AnswerError);
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
  });

  it("keeps the connection for the next question, which names the one before", async () => {
    const client = newClient();
    await asking(client);
    network.socket.completed(-1);
    await pass();
    new Asked(client, "And then?");
    await pass();
    expect(network.sockets).toHaveLength(1);
    expect(network.socket.sent.at(-1)).toMatchObject({ message_id: "id-2", previous_message_id: "id-1" });
  });

  it("takes one question at a time", async () => {
    const client = newClient();
    await asking(client);
    const second = new Asked(client);
    await pass();
    expect(second.error).toBeInstanceOf(BusyError);
  });

  it("says so when the server takes no message of that size", async () => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.drop(1009);
    await pass(30_000);
    expect(asked.error).toMatchObject({ kind: "refused", body: { code: "message_too_large" } });
    expect(network.sockets).toHaveLength(1);
  });
});
