import { describe, expect, it } from "vitest";
import { RefusedError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { asking, network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

describe("a refusal over a WebSocket", () => {
  const CONFLICT = { type: "conflict_error", code: "causal_violation", message: "not the last" };

  it("corrects the chain once, as the server says", async () => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.frame({ type: "error", message_id: "id-1", error: { ...CONFLICT, expected: "id-0" } });
    await pass();
    expect(network.socket.sent.at(-1)).toMatchObject({ message_id: "id-1", previous_message_id: "id-0" });
    network.socket.frame({ type: "error", message_id: "id-1", error: { ...CONFLICT, expected: "id-9" } });
    await pass();
    expect(asked.error).toBeInstanceOf(RefusedError);
    expect(network.socket.sentOf("chat.message")).toHaveLength(2);
  });

  it("still replaces what it was to replace, where somebody else has asked meanwhile", async () => {
    const client = newClient();
    const answer = client.ask("Why?", { replaces: "id-7" });
    await pass();
    expect(network.socket.sent.at(-1)).toMatchObject({ previous_message_id: null, replaces: "id-7" });
    network.socket.frame({ type: "error", message_id: "id-1", error: { ...CONFLICT, expected: "id-9" } });
    await pass();
    expect(network.socket.sent.at(-1)).toMatchObject({ previous_message_id: "id-9", replaces: "id-7" });
    void answer.stop();
  });

  it.each(["throttle", "system.busy"])("waits as long as %s says and sends the question again", async (type) => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.frame({
      type,
      retry_after_ms: 1_500,
      message_id: "id-1",
      error: { type: "rate_limit_error", code: "queue_full", message: "busy" },
    });
    await pass(1_749);
    expect(asked.of("waiting")).toEqual([{ type: "waiting", delayMs: 1_750, code: "queue_full" }]);
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
    await pass(1);
    expect(network.socket.sentOf("chat.message")).toHaveLength(2);
  });

  it.each([
    ["response_elsewhere", "overloaded_error", "system.busy"],
    ["response_readers", "rate_limit_error", "throttle"],
  ])("resumes again when the resume was refused for the moment: %s", async (code, errorType, type) => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.drop();
    await pass(250);
    const refused = { type, retry_after_ms: 1_000, error: { type: errorType, code, message: "later" } };
    network.socket.frame(refused);
    await pass(1_249);
    expect(network.socket.sentOf("response.resume")).toHaveLength(1);
    await pass(1);
    expect(network.socket.sentOf("response.resume")).toHaveLength(2);
    network.socket.start({ message_id: "id-1", next_index: 1 });
    // Not about the resume, which was answered: an acknowledgement too many.
    network.socket.frame(refused);
    network.socket.delta(1, "b");
    network.socket.completed(1);
    await pass();
    expect([asked.text, asked.error, network.sockets.length]).toEqual(["ab", undefined, 2]);
  });

  it("does not lose an answer for an acknowledgement that has crossed a restart", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.frame({
      type: "error",
      response_id: "rsp_1",
      error: { type: "invalid_request_error", code: "invalid_field", message: "`index` is 7", param: "index" },
    });
    network.socket.completed(0);
    await pass();
    expect([asked.text, asked.error]).toEqual(["a", undefined]);
  });

  it.each([
    ["budget_exhausted", 5_000],
    ["budget_exhausted", 12 * 3_600_000],
    ["upstream_throttled", 60_001],
  ])("waits for nothing that comes long after: %s in %i ms is told at once", async (code, retry_after_ms) => {
    const client = newClient();
    const throttled: unknown[] = [];
    client.on("throttle", (throttle) => throttled.push(throttle));
    const asked = new Asked(client);
    await pass();
    const error = { type: "rate_limit_error", code, message: "none left" };
    network.socket.frame({ type: "throttle", retry_after_ms, message_id: "id-1", error });
    await pass();
    expect(asked.error).toBeInstanceOf(RefusedError);
    expect(asked.error).toMatchObject({ isTemporary: true, body: { ...error, retry_after_ms } });
    expect([asked.of("waiting"), throttled]).toEqual([[], []]);
    await pass(Math.min(retry_after_ms, 1_800_000) + 10_000); // while the token lasts
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
    // Who has heard of it may ask something else.
    const next = new Asked(client);
    await pass();
    expect(network.socket.sentOf("chat.message")).toHaveLength(2);
    void next.answer.stop();
  });

  it("waits for a minute where that is all", async () => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.frame({
      type: "throttle",
      retry_after_ms: 60_000,
      message_id: "id-1",
      error: { type: "rate_limit_error", code: "tenant_limit", message: "slow" },
    });
    await pass();
    expect([asked.of("waiting").length, asked.error]).toEqual([1, undefined]);
    void asked.answer.stop();
  });

  it("gives up after a number of refusals", async () => {
    const asked = new Asked(newClient());
    for (let round = 0; round < 9; round += 1) {
      await pass(4_100);
      network.socket.frame({
        type: "throttle",
        retry_after_ms: 100,
        message_id: "id-1",
        error: { type: "rate_limit_error", code: "rate_limited", message: "slow" },
      });
    }
    await pass();
    expect(asked.error).toMatchObject({ kind: "refused", body: { code: "rate_limited" } });
  });
});
