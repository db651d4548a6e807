import { describe, expect, it } from "vitest";
import { pass } from "./asked.ts";
import { network, newClient, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

const options = { params: { temperature: 0, stop: ["END"] }, timeoutMs: 5_000, metadata: { ticket: "T-7" } };
const payload = {
  text: "Why?",
  params: { temperature: 0, stop: ["END"] },
  timeout_ms: 5_000,
  metadata: { ticket: "T-7" },
};

describe("what is said beside a question", () => {
  it("goes to the server with it", async () => {
    newClient().ask("Why?", options);
    await pass();
    expect(network.socket.sent[0]).toMatchObject({ type: "chat.message", payload });
  });

  it("is sent again with it where the first time was lost", async () => {
    newClient().ask("Why?", options);
    await pass();
    network.socket.drop();
    await pass(3_000);
    expect(network.socket.sent[0]).toMatchObject({ type: "chat.message", message_id: "id-1", payload });
  });
});
