import { describe, expect, it } from "vitest";
import type { Asked } from "./asked.ts";
import { pass } from "./asked.ts";
import { asking, network, useFakeNetwork } from "./websocket-scene.ts";

useFakeNetwork();

/** Loses the connection, and returns what the client resumes with over the next one. */
async function resumed(): Promise<unknown[]> {
  network.socket.drop();
  await pass(500);
  return network.socket.sent;
}

function resume(after: number, epoch: number): object {
  return { type: "response.resume", response_id: "rsp_1", after, epoch };
}

async function finish(asked: Asked, lastIndex: number): Promise<void> {
  network.socket.completed(lastIndex);
  await pass();
  expect([asked.ended, asked.error]).toEqual([true, undefined]);
}

describe("an answer whose owner changes", () => {
  it("goes on without anything to see, where nothing was lost", async () => {
    const asked = await asking();
    network.socket.delta(1, "Even", 0);
    network.socket.restarted(2, 1, 2);
    network.socket.delta(3, "flow");
    await finish(asked, 3);
    expect(asked.text).toBe("Evenflow");
    expect(asked.events.map((event) => event.type)).toEqual(["transport", "accepted", "delta", "delta", "completed"]);
  });

  it("is resumed with the epoch that a marker told", async () => {
    await asking();
    network.socket.delta(0, "a");
    network.socket.restarted(1, 0, 2);
    await pass();
    expect(await resumed()).toEqual([resume(1, 2)]);
  });

  it("is resumed with the epoch that its start told, when that goes on from what is held", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    expect(await resumed()).toEqual([resume(0, 1)]);
    network.socket.start({ message_id: "id-1", next_index: 1, epoch: 2 });
    await pass();
    expect(await resumed()).toEqual([resume(0, 2)]);
    network.socket.start({ message_id: "id-1", next_index: 1, epoch: 2 });
    network.socket.restarted(1, 0, 2);
    network.socket.delta(2, "b");
    await finish(asked, 2);
    expect([asked.text, asked.of("restarted")]).toEqual(["ab", []]);
  });

  it("is resumed with the epoch of what is held, when a start was lost before it was said what replaces that", async () => {
    const asked = await asking();
    network.socket.delta(3, "lost", 0);
    await resumed();
    network.socket.start({ message_id: "id-1", next_index: 0, epoch: 2 });
    await pass();
    expect(await resumed()).toEqual([resume(3, 1)]);
    network.socket.start({ message_id: "id-1", next_index: 0, epoch: 2 });
    network.socket.restarted(-1, -1, 2);
    network.socket.delta(4, "kept", 0);
    await finish(asked, 4);
    expect(asked.of("restarted")).toMatchObject([{ type: "restarted", keep: 0 }]);
    expect(asked.text).toBe("kept");
  });

  it("is replaced whole, before or behind the start", async () => {
    const asked = await asking();
    network.socket.delta(3, "lost", 0);
    await resumed();
    network.socket.restarted(-1, -1, 2);
    network.socket.start({ message_id: "id-1", next_index: 0, epoch: 2 });
    network.socket.delta(4, "kept", 0);
    await pass();
    expect(await resumed()).toEqual([resume(4, 2)]);
    expect(asked.text).toBe("kept");
  });

  it("is cut, and goes on, where the marker says that the last pieces were lost", async () => {
    const asked = await asking();
    for (const [index, text] of ["a", "b", "lost", "too"].entries()) network.socket.delta(index, text);
    network.socket.restarted(2, 1, 2);
    network.socket.delta(3, "c");
    await finish(asked, 3);
    expect(asked.of("restarted")).toMatchObject([{ type: "restarted", keep: 2 }]);
    expect(asked.text).toBe("abc");
  });

  it("is fetched again from before a joined piece, part of which was lost", async () => {
    const asked = await asking();
    network.socket.delta(0, "a");
    network.socket.delta(3, "b|lost|too", 1);
    network.socket.restarted(3, 2, 2);
    network.socket.delta(4, "d");
    await pass();
    expect(asked.text).toBe("a");
    expect(network.socket.sentOf("response.resume")).toEqual([resume(0, 1)]);
    network.socket.start({ message_id: "id-1", next_index: 1, epoch: 2 });
    network.socket.delta(2, "bc", 1);
    network.socket.restarted(3, 2, 2);
    network.socket.delta(4, "d");
    await finish(asked, 4);
    expect(asked.text).toBe("abcd");
  });

  it("is acknowledged again from the beginning, when it was replaced", async () => {
    await asking();
    network.socket.delta(9, "lost", 0);
    await pass(1_000);
    network.socket.restarted(-1, -1, 2);
    network.socket.delta(1, "kept", 0);
    await pass(1_000);
    expect(network.socket.sentOf("response.ack").map((frame) => frame.index)).toEqual([9, 1]);
  });
});
