import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TransportName } from "../../src/client/api.ts";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { completedFrame, eventOf, FakeEventStream } from "./fake-event-stream.ts";
import { FakeNetwork, json, poll, refusal } from "./fake-network.ts";
import { SeededRandom } from "./seeded-random.ts";

const EVENTS = "GET /chat/message/rsp_1/events";
const RESPONSE = "GET /chat/message/rsp_1";

let network: FakeNetwork;
let streams: FakeEventStream[];
/** What happens to a new stream; by default the server says how soon to come back, as it does at once. */
let onStream: (stream: FakeEventStream) => void;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  streams = [];
  onStream = (stream) => stream.text("retry: 500\n\n");
  network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
  network.on(RESPONSE, poll(0, "", 0, "streaming"));
  network.on(EVENTS, (call) => {
    const stream = new FakeEventStream(call);
    streams.push(stream);
    onStream(stream);
    return stream.response;
  });
});

afterEach(() => {
  vi.useRealTimers();
});

function newClient(...transports: TransportName[]): EvenflowClient {
  return new EvenflowClient({
    url: "http://test",
    transports: transports.length > 0 ? transports : ["sse", "long-poll"],
  });
}

/** A question, and the stream by which its answer has begun to come. */
async function asking(client = newClient()): Promise<{ asked: Asked; stream: FakeEventStream }> {
  const asked = new Asked(client);
  await pass();
  return { asked, stream: latest() };
}

function latest(): FakeEventStream {
  const stream = streams.at(-1);
  if (stream === undefined) throw new Error("no stream was opened");
  return stream;
}

function travels(asked: Asked): TransportName[] {
  return asked.of("transport").map((event) => event.transport);
}

describe("an answer by server-sent events", () => {
  it("arrives whole, and needs no poll and no WebSocket", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "Even");
    stream.frame({ type: "chat.response.delta", response_id: "rsp_1", delta: "flow.", index: 2, from: 1 });
    stream.completed(2);
    await pass();
    expect([stream.query, stream.bearer]).toEqual(["after=-1&epoch=1", "Bearer token-1"]);
    expect(asked.events).toEqual([
      { type: "transport", transport: "sse", fallback: false },
      { type: "accepted", responseId: "rsp_1", messageId: "id-1" },
      { type: "delta", text: "Even", from: 0, index: 0 },
      { type: "delta", text: "flow.", from: 1, index: 2 },
      { type: "completed", finishReason: "stop", lastIndex: 2, usage: null, degraded: false },
    ]);
    expect([network.sockets.length, network.callsTo(RESPONSE).length]).toEqual([0, 0]);
    expect(stream.isAborted).toBe(true);
  });

  it("is the same wherever its bytes are cut", async () => {
    const words = ["Grüße, ", "\u{1F44B}\u{1F3FD} ", "世界\n\n", "data: x", "\r\n", "!"];
    const text = words.map((delta, index) =>
      eventOf({ type: "chat.response.delta", response_id: "rsp_1", delta, index }),
    );
    const bytes = new TextEncoder().encode(`: hi\n\n${text.join("")}${eventOf(completedFrame(words.length - 1))}`);
    for (let seed = 0; seed < 40; seed += 1) {
      const random = new SeededRandom(seed);
      const { asked, stream } = await asking();
      for (let at = 0; at < bytes.length; ) {
        const next = at + random.between(1, 40);
        stream.bytes(bytes.slice(at, next));
        at = next;
        if (random.happens(0.3)) await pass(1);
      }
      await pass();
      expect([asked.text, asked.ended, asked.error]).toEqual([words.join(""), true, undefined]);
    }
  });

  it("begins again where the server says so, and says the newest epoch from then on", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "lost");
    stream.frame({
      type: "chat.response.restarted",
      response_id: "rsp_1",
      from_index: -1,
      index: -1,
      epoch: 2,
      attempt: 2,
    });
    stream.delta(0, "kept");
    await pass();
    stream.break();
    await pass(250);
    expect(latest().query).toBe("after=0&epoch=2");
    latest().delta(1, "!");
    latest().completed(1);
    await pass();
    expect(asked.text).toBe("kept!");
  });

  it.each(["end", "break"] as const)("goes on behind the last index after a stream's %s", async (how) => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    await pass();
    stream[how]();
    await pass(249);
    expect(streams).toHaveLength(1);
    await pass(1);
    expect(latest().query).toBe("after=0&epoch=1");
    latest().delta(0, "a");
    latest().delta(1, "b");
    latest().completed(1);
    await pass();
    expect([asked.text, travels(asked)]).toEqual(["ab", ["sse"]]);
  });

  it.each([
    ["a gap", (stream: FakeEventStream) => stream.delta(3, "far")],
    ["an end that comes too early", (stream: FakeEventStream) => stream.completed(4)],
    ["what cannot be read", (stream: FakeEventStream) => stream.text("data: {]\n\n")],
  ])("is asked for again after %s", async (_name, trouble) => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    trouble(stream);
    await pass(250);
    expect([stream.isAborted, latest().query]).toEqual([true, "after=0&epoch=1"]);
    latest().delta(1, "b");
    latest().completed(1);
    await pass();
    expect(asked.text).toBe("ab");
  });

  it("ends with the error that ended it", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "So");
    const error = { type: "upstream_error", code: "model_timeout", message: "slow" };
    stream.frame({ type: "chat.response.error", response_id: "rsp_1", message_id: "id-1", last_index: 0, error });
    await pass();
    expect(asked.error).toMatchObject({ kind: "answer", body: { code: "model_timeout" } });
    expect(asked.text).toBe("So");
  });

  it("is opened with a new token when the old one has expired", async () => {
    const expired = () => refusal(401, { type: "authentication_error", code: "token_expired" });
    network.on(EVENTS, (call) => {
      if (call.bearer === "Bearer token-1") return expired();
      streams.push(new FakeEventStream(call));
      return latest().response;
    });
    const { asked } = await asking();
    latest().completed(-1);
    await pass();
    expect([asked.ended, asked.error, latest().bearer]).toEqual([true, undefined, "Bearer token-2"]);
  });

  it("waits as long as Retry-After says", async () => {
    network.on(EVENTS, () =>
      refusal(503, { type: "overloaded_error", code: "reconnect_storm" }, { "Retry-After": "3" }),
    );
    const asked = new Asked(newClient());
    await pass(3_249);
    expect(network.callsTo(EVENTS)).toHaveLength(1);
    await pass(1);
    expect(network.callsTo(EVENTS)).toHaveLength(2);
    expect(asked.of("waiting")[0]).toEqual({ type: "waiting", delayMs: 3_250, code: "reconnect_storm" });
  });

  it("is stopped by a call, and ends with what the stream says then", async () => {
    const { asked, stream } = await asking();
    network.on("POST /chat/message/rsp_1/cancel", () => {
      stream.completed(0, "cancelled");
      return json(200, { response_id: "rsp_1", status: "cancelled" });
    });
    stream.delta(0, "a");
    await pass();
    await Promise.all([asked.answer.stop(), pass()]);
    expect([asked.answer.state, asked.text]).toEqual(["stopped", "a"]);
  });
});

describe("an event stream that is silent", () => {
  it("is kept while a poll has nothing either, and as long as there are heartbeats", async () => {
    const { asked, stream } = await asking();
    for (let beat = 0; beat < 8; beat += 1) {
      await pass(15_000);
      stream.text(": still here\n\n");
    }
    stream.completed(-1);
    await pass();
    expect([streams.length, asked.ended, travels(asked)]).toEqual([1, true, ["sse"]]);
  });

  it("is taken for dead without any", async () => {
    const { stream } = await asking();
    await pass(30_000);
    expect(stream.isAborted).toBe(true);
    await pass(250);
    expect(streams).toHaveLength(2);
  });

  it("is held back by a proxy when a poll brings something: the answer is polled from then on", async () => {
    onStream = () => {};
    const asked = new Asked(newClient());
    network.onEach(RESPONSE, [
      poll(0, "a", 1, "streaming"),
      poll(0, "a", 1, "streaming"),
      poll(1, "b", 1, "completed"),
    ]);
    await pass(2_500);
    expect(travels(asked)).toEqual(["sse", "long-poll"]);
    expect([asked.text, asked.ended, latest().isAborted]).toEqual(["ab", true, true]);
  });

  it("is not, when it brings the same a moment later", async () => {
    network.on(RESPONSE, poll(0, "a", 1, "streaming"));
    const { asked, stream } = await asking();
    await pass(2_499);
    stream.delta(0, "a");
    await pass(1_000);
    stream.completed(0);
    await pass();
    expect([asked.text, travels(asked)]).toEqual(["a", ["sse"]]);
  });

  it("is lost rather than held back when it has brought something and then nothing more, as in a tab that was frozen", async () => {
    network.on(RESPONSE, poll(1, "b", 1, "streaming"));
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    await pass(3_500);
    expect([streams.length, stream.isAborted, latest().query]).toEqual([2, true, "after=0&epoch=1"]);
    latest().delta(1, "b");
    latest().completed(1);
    await pass();
    expect([asked.text, asked.ended, travels(asked)]).toEqual(["ab", true, ["sse"]]);
  });

  it("is held back when it was lost like that, and the next one brings nothing", async () => {
    network.on(RESPONSE, poll(1, "b", 1, "streaming"));
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    await pass(6_500);
    expect([streams.length, travels(asked)]).toEqual([2, ["sse", "long-poll"]]);
  });

  it("is not tried again for a minute when it was held back, and then it is", async () => {
    onStream = () => {};
    network.on(RESPONSE, poll(0, "a", 1, "completed"));
    const client = newClient();
    const first = new Asked(client);
    await pass(2_500);
    const second = new Asked(client, "And then?");
    await pass();
    expect([travels(first), travels(second)]).toEqual([["sse", "long-poll"], ["long-poll"]]);
    await pass(60_000);
    const third = new Asked(client, "And at last?");
    await pass();
    expect(travels(third)).toEqual(["sse"]);
  });
});

describe("a server that is leaving in the middle of a stream", () => {
  it("is read until the next stream has begun, from where the answer then goes on", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    stream.text(": reconnect 1000\n");
    await pass(999);
    stream.delta(1, "b");
    await pass();
    expect(streams).toHaveLength(1);
    let open: (response: Response) => void = () => {};
    network.on(EVENTS, (call) => {
      streams.push(new FakeEventStream(call));
      return new Promise<Response>((answer) => {
        open = answer;
      });
    });
    await pass(1);
    expect(latest().query).toBe("after=1&epoch=1&moving=1");
    stream.delta(2, "c");
    await pass();
    expect([asked.text, stream.isAborted]).toEqual(["abc", false]);
    open(latest().response);
    await pass();
    expect(stream.isAborted).toBe(true);
    latest().delta(3, "cd", 2);
    latest().completed(3);
    await pass();
    expect([asked.text, asked.of("reconnecting"), asked.of("restarted")]).toEqual(["abcd", [], []]);
  });

  it("says how much of the conversation the model does not receive, also while it is paused", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    await pass();
    asked.answer.pause();
    const start = { type: "chat.response.start", response_id: "rsp_1", message_id: "id-1", next_index: 1 };
    stream.frame({ ...start, history_dropped: 2, history_dropped_by: "model" });
    stream.completed(0);
    await pass();
    asked.answer.resume();
    await pass();
    expect(asked.of("accepted").at(-1)).toMatchObject({ historyDropped: 2, historyDroppedBy: "model" });
    expect([asked.ended, asked.error, asked.of("reconnecting")]).toEqual([true, undefined, []]);
  });

  it("is read on while no other one can be had", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    stream.text(": reconnect 0\n");
    network.on(EVENTS, () => refusal(503, { type: "overloaded_error", code: "draining" }, { "Retry-After": "1" }));
    await pass(900);
    stream.delta(1, "b");
    await pass();
    expect([asked.text, asked.of("waiting")]).toEqual(["ab", []]);
    expect(network.callsTo(EVENTS).length).toBeGreaterThan(2);
    stream.completed(1);
    await pass();
    expect(asked.ended).toBe(true);
  });
});

describe("a login page in the place of the next stream", () => {
  it("is not read from: the one that is leaving still brings the answer", async () => {
    const { asked, stream } = await asking();
    stream.delta(0, "a");
    stream.text(": reconnect 0\n");
    network.on(EVENTS, () => new Response("<html>", { headers: { "Content-Type": "text/html" } }));
    await pass(900);
    expect(stream.isAborted).toBe(false);
    stream.delta(1, "b");
    stream.completed(1);
    await pass();
    expect([asked.text, asked.ended, asked.of("reconnecting")]).toEqual(["ab", true, []]);
  });
});

describe("the ladder", () => {
  it("has server-sent events below a WebSocket that cannot be had", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    const { asked } = await asking(newClient("long-poll", "sse", "websocket"));
    expect(asked.events[0]).toEqual({ type: "transport", transport: "sse", fallback: true });
  });

  it("is climbed in the middle of a stream", async () => {
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    const { asked, stream } = await asking(newClient("websocket", "sse", "long-poll"));
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    for (let index = 0; index < 4; index += 1) {
      await pass(500);
      stream.delta(index, `${index} `);
    }
    await pass();
    expect(travels(asked)).toEqual(["sse", "websocket"]);
    expect(stream.isAborted).toBe(true);
    const resume = network.socket.sent[0];
    expect(resume).toMatchObject({ type: "response.resume", response_id: "rsp_1" });
    const next = Number(resume?.after) + 1;
    network.socket.start({ message_id: "id-1", next_index: next });
    for (let index = next; index < 4; index += 1) network.socket.delta(index, `${index} `);
    network.socket.completed(3);
    await pass();
    expect(asked.text).toBe("0 1 2 3 ");
  });

  it("is climbed no more after a stop, whose end comes the way that the answer does", async () => {
    network.on("POST /chat/message/rsp_1/cancel", () => json(200, { response_id: "rsp_1", status: "cancelled" }));
    network.onSocket = (socket) => queueMicrotask(() => socket.drop());
    const { asked, stream } = await asking(newClient("websocket", "sse"));
    network.onSocket = (socket) => queueMicrotask(() => socket.ready());
    await pass(500);
    stream.delta(0, "a");
    await pass();
    expect(network.sockets).toHaveLength(2);
    void asked.answer.stop();
    stream.delta(1, "b");
    await pass();
    stream.delta(2, "c");
    stream.completed(2, "cancelled");
    await pass();
    expect([asked.text, asked.of("completed")[0]?.lastIndex]).toEqual(["abc", 2]);
    expect(travels(asked)).toEqual(["sse"]);
  });

  it("is gone down where streams break off at once, and up again between two polls", async () => {
    onStream = (stream) => stream.end();
    const asked = new Asked(newClient());
    network.on(RESPONSE, async (call) => {
      const from = Number(new URL(call.path, "http://test").searchParams.get("from_index"));
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return poll(from, `${from} `, 1, "streaming")();
    });
    await pass(1_000);
    expect(travels(asked)).toEqual(["sse", "long-poll"]);
    onStream = () => {};
    await pass(1_000);
    expect(travels(asked)).toEqual(["sse", "long-poll", "sse"]);
    const polls = network.callsTo(RESPONSE).length;
    expect(latest().query).toBe(`after=${polls - 1}&epoch=1`);
    latest().completed(polls - 1);
    await pass();
    expect(asked.text).toBe(Array.from({ length: polls }, (_, index) => `${index} `).join(""));
  });

  it("has no end where there is no rung below: what is lost is tried again", async () => {
    network.on(EVENTS, () => Promise.reject(new TypeError("network")));
    const asked = new Asked(newClient("sse"));
    await pass(120_000);
    expect([asked.ended, travels(asked)]).toEqual([false, ["sse"]]);
    network.on(EVENTS, (call) => {
      streams.push(new FakeEventStream(call));
      return latest().response;
    });
    await pass(2_000);
    latest().completed(-1);
    await pass();
    expect([asked.ended, asked.error]).toEqual([true, undefined]);
  });
});
