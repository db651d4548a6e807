import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EvenflowClient } from "../../src/client/client.ts";
import { AnswerError, ProtocolError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork, json, poll, refusal } from "./fake-network.ts";

const MESSAGE = "POST /chat/message";
const RESPONSE = "GET /chat/message/rsp_1";
const CANCEL = "POST /chat/message/rsp_1/cancel";

let network: FakeNetwork;

const accepted = () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" });

/** Nothing comes. */
const never = () => new Promise<Response>(() => {});

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  network.on(MESSAGE, accepted);
});

afterEach(() => {
  vi.useRealTimers();
});

function pollingClient(): EvenflowClient {
  return new EvenflowClient({ url: "http://test", transports: ["long-poll"] });
}

describe("an answer by long-polling", () => {
  it("follows next_index to the end, without a pause between polls", async () => {
    network.onEach(RESPONSE, [
      poll(0, "Even", 1, "streaming"),
      poll(1, "flow", 4, "streaming"),
      poll(5, ".", 1, "completed", { full_text: "Evenflow.", usage: { prompt_tokens: 1, completion_tokens: 2 } }),
    ]);
    const asked = new Asked(pollingClient());
    await pass();
    expect(network.callsTo(RESPONSE).map((call) => call.path.split("?")[1])).toEqual([
      "from_index=0&epoch=1&timeout_ms=4000",
      "from_index=1&epoch=1&timeout_ms=4000",
      "from_index=5&epoch=1&timeout_ms=4000",
    ]);
    expect(network.callsTo(RESPONSE)[0]?.bearer).toBe("Bearer token-1");
    expect(asked.events).toEqual([
      { type: "transport", transport: "long-poll", fallback: false },
      { type: "accepted", responseId: "rsp_1", messageId: "id-1" },
      { type: "delta", text: "Even", from: 0, index: 0 },
      { type: "polled" },
      { type: "delta", text: "flow", from: 1, index: 4 },
      { type: "polled" },
      { type: "delta", text: ".", from: 5, index: 5 },
      { type: "polled" },
      {
        type: "completed",
        finishReason: "stop",
        lastIndex: 5,
        usage: { prompt_tokens: 1, completion_tokens: 2 },
        degraded: false,
      },
    ]);
    expect(network.sockets).toEqual([]);
  });

  it("says once how much of the conversation the model does not receive", async () => {
    const dropped = { history_dropped: 2, history_dropped_by: "model" };
    network.onEach(RESPONSE, [
      poll(0, "a", 1, "streaming", dropped),
      poll(1, "b", 1, "completed", { full_text: "ab", ...dropped }),
    ]);
    const asked = new Asked(pollingClient());
    await pass();
    expect(asked.of("accepted").slice(1)).toEqual([
      { type: "accepted", responseId: "rsp_1", messageId: "id-1", historyDropped: 2, historyDroppedBy: "model" },
    ]);
  });

  it("chains the messages", async () => {
    network.on(RESPONSE, poll(0, "", 0, "completed", { full_text: "" }));
    const client = pollingClient();
    new Asked(client);
    await pass();
    new Asked(client, "And then?");
    await pass();
    expect(network.callsTo(MESSAGE).map((call) => call.body.previous_message_id)).toEqual([null, "id-1"]);
  });

  it("puts what is no text where it belongs", async () => {
    const events = [
      { index: 1, at: 0, kind: "reasoning", text: "Hm." },
      { index: 4, at: 3, kind: "call", call: 0, id: "call_1", name: "weather" },
      { index: 5, at: 3, kind: "result", id: "call_1", text: "cold" },
    ];
    network.on(RESPONSE, () =>
      json(200, {
        response_id: "rsp_1",
        new_text: "🌊, is cold.",
        events,
        status: "completed",
        metadata: { next_index: 8, finish_reason: "stop", usage: null, degraded: false },
      }),
    );
    const asked = new Asked(pollingClient());
    await pass(300);
    const { parts } = await asked.answer.done;
    expect(parts).toMatchObject([
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "🌊, " },
      { type: "tool", name: "weather", result: "cold" },
      { type: "text", text: "is cold." },
    ]);
    expect(asked.events.flatMap((event) => ("from" in event ? [[event.from, event.index]] : []))).toEqual([
      [1, 1],
      [2, 3],
      [4, 4],
      [5, 5],
      [6, 7],
    ]);
  });

  it("begins again from the index that is kept", async () => {
    network.onEach(RESPONSE, [
      poll(0, "keep ", 1, "streaming"),
      poll(1, "drop", 1, "streaming"),
      poll(2, "this", 2, "streaming", { restarted: { from_index: 0, attempt: 2 } }),
      poll(4, "", 0, "completed", { full_text: "keep this" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass(300);
    expect(asked.of("restarted")).toMatchObject([{ type: "restarted", keep: 5 }]);
    expect(asked.text).toBe("keep this");
    expect(network.callsTo(RESPONSE)).toHaveLength(4);
  });

  it("polls again from before a piece that a restart cuts through", async () => {
    network.onEach(RESPONSE, [
      poll(0, "abcd", 4, "streaming"),
      poll(4, "x", 2, "streaming", { restarted: { from_index: 1, attempt: 2 } }),
      poll(0, "abx", 6, "completed", { restarted: { from_index: 1, attempt: 2 }, full_text: "abx" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass();
    expect(network.callsTo(RESPONSE).at(-1)?.path).toContain("from_index=0&");
    expect([asked.text, asked.error]).toEqual(["abx", undefined]);
  });

  it("tells the newest owner that it has heard of, and begins again where that one's log is another", async () => {
    network.onEach(RESPONSE, [
      poll(0, "kept ", 2, "streaming"),
      poll(2, "and ", 2, "streaming", { epoch: 2 }),
      poll(0, "anew", 3, "streaming", { epoch: 3, restarted: { from_index: -1, attempt: 3 } }),
      poll(3, "", 0, "completed", { epoch: 3, full_text: "anew" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass(300);
    expect(network.callsTo(RESPONSE).map((call) => call.path.split("?")[1])).toEqual([
      "from_index=0&epoch=1&timeout_ms=4000",
      "from_index=2&epoch=1&timeout_ms=4000",
      "from_index=4&epoch=2&timeout_ms=4000",
      "from_index=3&epoch=3&timeout_ms=8000",
    ]);
    expect(asked.of("restarted")).toMatchObject([{ type: "restarted", keep: 0 }]);
    expect(asked.of("delta").map((event) => [event.from, event.index])).toEqual([
      [0, 1],
      [2, 3],
      [0, 2],
    ]);
    expect(asked.text).toBe("anew");
  });

  it("claims no newer owner for what it fetches again from before a cut", async () => {
    network.onEach(RESPONSE, [
      poll(0, "abcd", 4, "streaming"),
      poll(4, "x", 2, "streaming", { epoch: 2, restarted: { from_index: 1, attempt: 2 } }),
      poll(0, "abx", 6, "completed", { epoch: 2, full_text: "abx" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass();
    expect(network.callsTo(RESPONSE).at(-1)?.path).toContain("from_index=0&epoch=1&");
    expect(asked.text).toBe("abx");
  });

  it("is not over with the last poll, when a cut makes it poll again", async () => {
    network.onEach(RESPONSE, [
      poll(0, "abcd", 4, "streaming"),
      poll(4, "x", 2, "completed", { restarted: { from_index: 1, attempt: 2 } }),
      poll(0, "abx", 6, "completed", { full_text: "abx" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass();
    expect([asked.text, asked.ended, network.callsTo(RESPONSE).length]).toEqual(["abx", true, 3]);
    expect(asked.of("completed")).toHaveLength(1);
  });

  it("throws the error that ended the answer", async () => {
    const error = { type: "model_refusal_error", code: "model_refused", message: "no" };
    network.on(RESPONSE, poll(0, "So", 1, "error", { error, full_text: "So" }));
    const asked = new Asked(pollingClient());
    await pass();
    expect(asked.text).toBe("So");
    expect(asked.error).toBeInstanceOf(AnswerError);
    expect(asked.error).toMatchObject({ body: { code: "model_refused" } });
  });

  it("does not hammer a server that answers empty polls at once", async () => {
    network.on(RESPONSE, poll(0, "", 0, "queued"));
    new Asked(pollingClient());
    await pass(1_000);
    expect(network.callsTo(RESPONSE).length).toBeLessThanOrEqual(5);
  });

  it("goes on where it does not know the status", async () => {
    network.onEach(RESPONSE, [poll(0, "x", 1, "perhaps"), poll(1, "y", 2, "completed")]);
    const asked = new Asked(pollingClient());
    await pass(1_000);
    expect(asked.text).toBe("xy");
    expect(asked.of("completed")).toHaveLength(1);
  });

  it.each([
    ["an answer that is not JSON", () => new Response("<html>", { status: 200 })],
    ["a page of somebody else's 404", () => new Response("Not here", { status: 404 })],
  ])("takes %s for no answer, and polls again", async (_name, answer) => {
    network.onEach(RESPONSE, [answer, answer, poll(0, "a", 1, "completed")]);
    const asked = new Asked(pollingClient());
    await pass(1_000);
    expect([asked.text, asked.error]).toEqual(["a", undefined]);
  });

  it.each([
    ["JSON that makes no sense", () => json(200, { hello: "world" })],
    ["another API's 404", () => json(404, { detail: "Not Found" })],
  ])("gives up on %s", async (_name, answer) => {
    network.on(RESPONSE, answer);
    const asked = new Asked(pollingClient());
    await pass(1_000);
    expect(asked.error).toBeInstanceOf(ProtocolError);
  });
});

describe("trouble while long-polling", () => {
  it("tries again after a lost call, with growing pauses, from where it was", async () => {
    network.onEach(RESPONSE, [
      poll(0, "a", 1, "streaming"),
      () => Promise.reject(new TypeError("network")),
      () => new Response("Bad gateway", { status: 502 }),
      poll(1, "b", 1, "completed", { full_text: "ab" }),
    ]);
    const asked = new Asked(pollingClient());
    await pass(2_000);
    expect(asked.of("reconnecting").map((event) => event.delayMs)).toEqual([250, 500]);
    expect([asked.text, asked.ended]).toEqual(["ab", true]);
  });

  it.each(["reconnect_storm", "response_elsewhere"])("waits through %s, and asks again", async (code) => {
    const wait = () => refusal(503, { type: "overloaded_error", code }, { "Retry-After": "1" });
    network.onEach(RESPONSE, [wait, wait, poll(0, "a", 1, "completed", { full_text: "a" })]);
    const asked = new Asked(pollingClient());
    await pass(1_250 + 1_500);
    expect(asked.of("waiting").map((event) => event.delayMs)).toEqual([1_250, 1_500]);
    expect([asked.text, asked.ended]).toEqual(["a", true]);
  });

  it("tries as long as it takes", async () => {
    network.on(RESPONSE, () => Promise.reject(new TypeError("network")));
    const asked = new Asked(pollingClient());
    await pass(60_000);
    expect(network.callsTo(RESPONSE).length).toBeGreaterThan(30);
    network.on(RESPONSE, poll(0, "a", 1, "completed"));
    await pass(2_000);
    expect([asked.text, asked.ended, asked.error]).toEqual(["a", true, undefined]);
  });

  it("finds out within 5.5 s that nothing comes any more, and keeps a poll that only waits", async () => {
    const answers: ((answer: Response) => void)[] = [];
    network.on(RESPONSE, () => new Promise<Response>((answer) => answers.push(answer)));
    const asked = new Asked(pollingClient());
    await pass(5_900);
    expect(answers).toHaveLength(1);
    answers[0]?.(poll(0, "a", 1, "streaming")());
    await pass();
    network.path = "dark";
    await pass(5_500);
    expect(asked.of("reconnecting").length).toBeGreaterThan(0);
  });

  it("makes a poll anew that is overdue, since its connection may be dead where others are not", async () => {
    network.onEach(RESPONSE, [poll(0, "a", 1, "streaming"), never, poll(1, "b", 1, "completed", { full_text: "ab" })]);
    const asked = new Asked(pollingClient());
    await pass(5_900);
    expect(asked.text).toBe("a");
    await pass(200);
    expect([asked.text, asked.ended, asked.of("reconnecting")]).toEqual(["ab", true, []]);
  });

  it("probes sooner, and makes a poll anew, where the last one was lost", async () => {
    network.onEach(RESPONSE, [poll(0, "a", 1, "streaming"), never, poll(1, "b", 1, "completed", { full_text: "ab" })]);
    const asked = new Asked(pollingClient());
    await pass();
    network.path = "dark";
    await pass(5_600);
    expect(asked.of("reconnecting")).toHaveLength(1);
    network.path = "up";
    await pass(1_100);
    expect(asked.text).toBe("ab");
  });

  it("is patient with what is coming slowly", async () => {
    const whole = await poll(1, "b", 1, "completed", { full_text: "ab" })().text();
    const slowly = () => {
      const body = new ReadableStream({
        start: (controller) => {
          setTimeout(() => {
            controller.enqueue(new TextEncoder().encode(whole));
            controller.close();
          }, 20_000);
        },
      });
      return new Response(body);
    };
    network.onEach(RESPONSE, [poll(0, "a", 1, "streaming"), slowly]);
    const asked = new Asked(pollingClient());
    await pass(20_000);
    expect([asked.text, network.callsTo(RESPONSE).length]).toEqual(["ab", 2]);
  });

  it("costs few polls while nothing comes, and asks for no more than gateways allow", async () => {
    network.on(RESPONSE, async (call) => {
      const waitMs = Number(new URL(call.path, "http://test").searchParams.get("timeout_ms"));
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      return poll(0, "", 0, "queued")();
    });
    new Asked(pollingClient());
    await pass(60_000);
    const waits = network.callsTo(RESPONSE).map((call) => /timeout_ms=(\d+)/.exec(call.path)?.[1]);
    expect(waits).toEqual(["4000", "8000", "16000", "20000", "20000"]);
  });

  it("probes nothing while the server collects text", async () => {
    let index = 0;
    network.on(RESPONSE, async () => {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      index += 1;
      return poll(index - 1, "a", 1, "streaming")();
    });
    const asked = new Asked(pollingClient());
    await pass(30_000);
    expect([asked.text.length, network.callsTo("GET /chat/message/none").length]).toEqual([10, 0]);
  });

  it("sends the question again under the same id when its acceptance was lost", async () => {
    network.onEach(MESSAGE, [() => Promise.reject(new TypeError("network")), accepted]);
    network.on(RESPONSE, poll(0, "a", 1, "completed", { full_text: "a" }));
    const asked = new Asked(pollingClient());
    await pass(2_000);
    expect(network.callsTo(MESSAGE).map((call) => call.body.message_id)).toEqual(["id-1", "id-1"]);
    expect(asked.text).toBe("a");
  });

  it("waits at least as long as Retry-After says", async () => {
    const busy = () => refusal(429, { type: "rate_limit_error", code: "queue_full" }, { "Retry-After": "2" });
    network.onEach(MESSAGE, [busy, accepted]);
    network.on(RESPONSE, poll(0, "a", 1, "completed", { full_text: "a" }));
    const asked = new Asked(pollingClient());
    await pass(2_249);
    expect(network.callsTo(MESSAGE)).toHaveLength(1);
    await pass(1);
    expect(asked.of("waiting")).toEqual([{ type: "waiting", delayMs: 2_250, code: "queue_full" }]);
    expect(asked.text).toBe("a");
  });

  it.each([
    ["our server", () => refusal(429, { type: "rate_limit_error", code: "tenant_limit" }, { "Retry-After": "61" })],
    ["a gateway", () => new Response("Later", { status: 503, headers: { "Retry-After": "3600" } })],
  ])("waits for nothing that %s says comes long after", async (_, later) => {
    network.on(MESSAGE, later);
    const asked = new Asked(pollingClient());
    await pass();
    expect(asked.error).toBeInstanceOf(Error);
    expect([asked.of("waiting"), asked.of("reconnecting")]).toEqual([[], []]);
    expect(network.callsTo(MESSAGE)).toHaveLength(1);
  });

  it("prefers the milliseconds of the error to the seconds of the header", async () => {
    const busy = () =>
      refusal(503, { type: "overloaded_error", code: "draining", retry_after_ms: 300 }, { "Retry-After": "1" });
    network.onEach(MESSAGE, [busy, accepted]);
    const asked = new Asked(pollingClient());
    await pass(550);
    expect(asked.of("waiting")).toEqual([{ type: "waiting", delayMs: 550, code: "draining" }]);
    expect(network.callsTo(MESSAGE)).toHaveLength(2);
  });

  it("corrects the chain once after a 409", async () => {
    const conflict = () => refusal(409, { type: "conflict_error", code: "causal_violation", expected: "id-0" });
    network.onEach(MESSAGE, [conflict, conflict]);
    const asked = new Asked(pollingClient());
    await pass();
    expect(network.callsTo(MESSAGE).map((call) => call.body.previous_message_id)).toEqual([null, "id-0"]);
    expect(asked.error).toMatchObject({ kind: "refused", body: { code: "causal_violation" } });
  });

  it.each([
    [404, "not_found_error", "response_not_found"],
    [410, "not_found_error", "response_expired"],
    [413, "invalid_request_error", "message_too_large"],
  ])("does not repeat what is refused with %i", async (status, type, code) => {
    network.on(RESPONSE, () => refusal(status, { type, code }));
    const asked = new Asked(pollingClient());
    await pass(30_000);
    expect(asked.error).toMatchObject({ kind: "refused", body: { code } });
    expect(network.callsTo(RESPONSE)).toHaveLength(1);
  });
});

describe("stopping an answer by long-polling", () => {
  it("deletes the response, and ends with the poll that tells so", async () => {
    let answerPoll: (answer: Response) => void = () => {};
    network.onEach(RESPONSE, [
      poll(0, "a", 1, "streaming"),
      () =>
        new Promise<Response>((resolve) => {
          answerPoll = resolve;
        }),
    ]);
    network.on(CANCEL, () => {
      answerPoll(poll(1, "b", 1, "cancelled", { finish_reason: "cancelled", full_text: "ab" })());
      return json(200, { response_id: "rsp_1", status: "cancelled" });
    });
    const client = pollingClient();
    const asked = new Asked(client);
    await pass();
    void asked.answer.stop();
    await pass();
    expect(network.callsTo(CANCEL)).toHaveLength(1);
    expect(asked.text).toBe("ab");
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled", lastIndex: 1 });
  });

  it("deletes the response as soon as it has one", async () => {
    let acceptQuestion: (answer: Response) => void = () => {};
    network.on(
      MESSAGE,
      () =>
        new Promise<Response>((resolve) => {
          acceptQuestion = resolve;
        }),
    );
    network.on(CANCEL, () => json(200, { response_id: "rsp_1", status: "cancelled" }));
    network.on(RESPONSE, poll(0, "", 0, "cancelled", { full_text: "" }));
    const client = pollingClient();
    const asked = new Asked(client);
    await pass();
    void asked.answer.stop();
    acceptQuestion(accepted());
    await pass();
    expect(network.callsTo(CANCEL)).toHaveLength(1);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
  });

  it("does not wait for a server that cannot be reached", async () => {
    network.on(
      RESPONSE,
      (call) => new Promise((_, reject) => call.signal?.addEventListener("abort", () => reject(call.signal?.reason))),
    );
    const client = pollingClient();
    const asked = new Asked(client);
    await pass();
    void asked.answer.stop();
    await pass(3_000);
    expect(asked.of("completed")[0]).toMatchObject({ finishReason: "cancelled" });
  });
});
