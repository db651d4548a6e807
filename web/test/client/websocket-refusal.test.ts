import { describe, expect, it } from "vitest";
import { RefusedError } from "../../src/client/errors.ts";
import { Asked, pass } from "./asked.ts";
import { network, newClient, useFakeNetwork } from "./websocket-scene.ts";

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

  it.each(["throttle", "system.busy"])("waits as long as %s says and sends the question again", async (type) => {
    const asked = new Asked(newClient());
    await pass();
    network.socket.frame({
      type,
      retry_after_ms: 1_500,
      message_id: "id-1",
      error: { type: "rate_limit_error", code: "queue_full", message: "busy" },
    });
    await pass(1_499);
    expect(asked.of("waiting")).toEqual([{ type: "waiting", delayMs: 1_500 }]);
    expect(network.socket.sentOf("chat.message")).toHaveLength(1);
    await pass(1);
    expect(network.socket.sentOf("chat.message")).toHaveLength(2);
  });

  it("gives up after a number of refusals", async () => {
    const asked = new Asked(newClient());
    for (let round = 0; round < 6; round += 1) {
      await pass(100);
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
