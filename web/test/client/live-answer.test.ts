import { describe, expect, it } from "vitest";
import type { AnswerEvent, AnswerState } from "../../src/client/api.ts";
import { Asked, pass } from "./asked.ts";
import { json } from "./fake-network.ts";
import { answerPings, asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

describe("an answer in the hands of the application", () => {
  it("tells where it stands", async () => {
    const client = newClient();
    const answer = client.ask("Why?");
    const states: AnswerState[] = [];
    answer.on("state", (state) => states.push(state));
    expect([answer.question, answer.state, answer.responseId, answer.text]).toEqual(["Why?", "asking", null, ""]);
    await pass();
    network.socket.start();
    network.socket.delta(0, "Because.");
    await pass();
    expect([answer.state, answer.responseId, answer.text]).toEqual(["streaming", "rsp_1", "Because."]);
    network.socket.completed(0);
    await expect(answer.done).resolves.toEqual({
      text: "Because.",
      parts: [{ type: "text", text: "Because." }],
      finishReason: "stop",
      lastIndex: 0,
      usage: { prompt_tokens: 4, completion_tokens: 7 },
      degraded: false,
    });
    expect(states).toEqual(["streaming", "completed"]);
  });

  it("is delivered though nobody reads it, and told whole to whoever reads it late", async () => {
    const { answer, events } = await asking();
    network.socket.delta(0, "a");
    network.socket.completed(0);
    await pass();
    const late: AnswerEvent[] = [];
    for await (const event of answer) late.push(event);
    expect(late).toEqual(events);
    expect(late.at(-1)?.type).toBe("completed");
  });

  it("goes on for the others when one of its readers leaves", async () => {
    const asked = await asking();
    const left = (async () => {
      for await (const event of asked.answer) if (event.type === "delta") return event.text;
      return undefined;
    })();
    network.socket.delta(0, "a");
    expect(await left).toBe("a");
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect([asked.text, asked.ended]).toEqual(["ab", true]);
  });

  it("calls listeners by the type of the event, with the text as it is then, until they have enough", async () => {
    const { answer } = await asking();
    const heard: string[] = [];
    const enough = answer.on("delta", ({ text }) => heard.push(`${text}:${answer.text}`));
    answer.on("restarted", ({ keep }) => heard.push(`${keep}:${answer.text}`));
    network.socket.delta(0, "a");
    network.socket.delta(1, "b");
    network.socket.restarted(2, 0);
    await pass();
    enough();
    enough();
    network.socket.delta(3, "c");
    await pass();
    expect(heard).toEqual(["a:a", "b:ab", "1:a"]);
    expect(answer.text).toBe("ac");
  });

  it("is not disturbed by a listener that throws", async () => {
    const asked = await asking();
    asked.answer.on("delta", () => {
      throw new Error("the application's own");
    });
    network.socket.delta(0, "a");
    network.socket.completed(0);
    await pass();
    expect([asked.text, asked.ended, asked.error]).toEqual(["a", true, undefined]);
  });

  it("fails in every way that one may listen", async () => {
    const asked = await asking();
    const errors: unknown[] = [];
    asked.answer.on("error", (error) => errors.push(error));
    network.socket.drop(4009);
    await pass();
    expect(asked.error).toMatchObject({ kind: "replaced" });
    expect(errors).toEqual([asked.error]);
    await expect(asked.answer.done).rejects.toBe(asked.error);
    await expect(asked.answer[Symbol.asyncIterator]().next()).resolves.toMatchObject({ value: { type: "transport" } });
    expect(asked.answer.state).toBe("failed");
    await asked.answer.stop();
  });
});

describe("the end of an answer", () => {
  it("is when the next question may be asked, at once", async () => {
    const client = newClient();
    const { answer } = await asking(client);
    const next = answer.done.then(() => client.ask("And then?"));
    network.socket.completed(-1);
    await pass();
    network.socket.start({ response_id: "rsp_2" });
    await pass();
    expect([(await next).state, (await next).responseId]).toEqual(["asking", "rsp_2"]);
    expect(network.sockets).toHaveLength(1);
  });
});

describe("an answer that is paused", () => {
  it("stands still, here and at the server, and then goes on with all that has come", async () => {
    const asked = await asking();
    const { answer } = asked;
    network.socket.delta(0, "a");
    await pass();
    answer.pause();
    answer.pause();
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect([answer.state, answer.text, asked.text, asked.ended]).toEqual(["paused", "a", "a", false]);
    answer.resume();
    answer.resume();
    await pass();
    expect([answer.state, answer.text, asked.text, asked.ended]).toEqual(["completed", "ab", "ab", true]);
    expect(network.socket.sent.slice(1).map((frame) => frame.type)).toEqual(["response.pause"]);
  });

  it("is continued at the server", async () => {
    const { answer } = await asking();
    answer.pause();
    answer.resume();
    expect(network.socket.sent.slice(1)).toEqual([
      { type: "response.pause", response_id: "rsp_1" },
      { type: "response.continue", response_id: "rsp_1" },
    ]);
  });

  it("is not acknowledged: nobody has it yet", async () => {
    const { answer } = await asking();
    answerPings();
    answer.pause();
    network.socket.delta(0, "a");
    await pass(3_000);
    expect(network.socket.sentOf("response.ack")).toEqual([]);
    answer.resume();
    await pass(1_000);
    expect(network.socket.sentOf("response.ack")).toMatchObject([{ index: 0 }]);
  });

  it("may be paused again by what it tells", async () => {
    const { answer } = await asking();
    const heard: string[] = [];
    answer.on("delta", ({ text }) => {
      heard.push(text);
      answer.pause();
    });
    for (const [index, text] of ["a", "b", "c"].entries()) network.socket.delta(index, text);
    await pass();
    expect([heard, answer.text]).toEqual([["a"], "a"]);
    answer.resume();
    await pass();
    expect([heard, answer.state]).toEqual([["a", "b"], "paused"]);
  });

  it("survives the loss of its connection", async () => {
    const asked = await asking();
    asked.answer.pause();
    network.socket.drop(4008);
    await pass(250);
    network.socket.start({ message_id: "id-1" });
    network.socket.delta(0, "a");
    network.socket.completed(0);
    await pass();
    expect(asked.ended).toBe(false);
    asked.answer.resume();
    await pass();
    expect([asked.text, asked.ended]).toEqual(["a", true]);
  });

  it("is stopped as any other", async () => {
    const asked = await asking();
    asked.answer.pause();
    const stopped = asked.answer.stop();
    network.socket.completed(-1, { finish_reason: "cancelled" });
    await pass();
    await stopped;
    expect([asked.answer.state, asked.ended]).toEqual(["stopped", true]);
  });
});

describe("an answer with a signal", () => {
  it("is stopped by it", async () => {
    const stop = new AbortController();
    const answer = newClient().ask("Why?", { signal: stop.signal });
    await pass();
    network.socket.start();
    stop.abort();
    await pass();
    expect(network.socket.sentOf("response.cancel")).toHaveLength(1);
    network.socket.completed(-1, { finish_reason: "cancelled" });
    await expect(answer.done).resolves.toMatchObject({ finishReason: "cancelled" });
  });

  it("is not even asked for when it is aborted already", async () => {
    const answer = newClient().ask("Why?", { signal: AbortSignal.abort() });
    await pass(3_000);
    expect(answer.state).toBe("stopped");
    expect(network.sockets.flatMap((socket) => socket.sent)).toEqual([]);
  });
});

describe("a client", () => {
  it("tells how its connection does, and how answers travel", async () => {
    const client = newClient();
    const heard: unknown[] = [];
    client.on("connection", (state) => heard.push(state));
    client.on("transport", (transport) => heard.push(transport));
    expect([client.connection, client.transport]).toEqual(["connecting", null]);
    await client.open();
    network.socket.drop();
    expect(client.connection).toBe("waiting");
    const asked = new Asked(client);
    await pass();
    network.socket.start();
    network.socket.drop();
    await pass();
    expect(asked.of("reconnecting")).toHaveLength(1);
    await pass(250);
    network.socket.start({ message_id: "id-1" });
    await pass();
    expect(heard).toEqual(["open", "websocket", "waiting", "open", "waiting", "open"]);
  });

  it("tells when it is throttled", async () => {
    const client = newClient();
    const heard: unknown[] = [];
    client.on("throttle", (throttle) => heard.push(throttle));
    new Asked(client);
    await pass();
    const error = { type: "rate_limit_error", code: "rate_limited", message: "slow" };
    network.socket.frame({ type: "throttle", message_id: "id-1", retry_after_ms: 800, error });
    await pass();
    expect(heard).toEqual([{ retryAfterMs: 1_050, code: "rate_limited" }]);
  });

  it("leaves without stopping the model when it is closed", async () => {
    network.on("POST /chat/message/rsp_1/cancel", () => json(200, {}));
    const client = newClient();
    const asked = await asking(client);
    network.socket.delta(0, "a");
    await pass();
    client.close();
    await pass(10_000);
    expect(asked.error).toMatchObject({ kind: "closed" });
    expect(asked.text).toBe("a");
    expect([client.connection, network.sockets.length, network.socket.closedByClient]).toEqual(["closed", 1, true]);
    expect(network.socket.sentOf("response.cancel")).toEqual([]);
    expect(network.callsTo("POST /chat/message/rsp_1/cancel")).toEqual([]);
    const late = new Asked(client);
    await pass();
    expect(late.error).toMatchObject({ kind: "closed" });
  });
});
