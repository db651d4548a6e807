import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TransportName } from "../../src/client/api.ts";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork } from "./fake-network.ts";
import { SeededRandom } from "./seeded-random.ts";
import { SimulatedCluster, type Troubles } from "./simulated-cluster.ts";
import type { Event, SimulatedLog } from "./simulated-log.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const CALM: Troubles = { crash: 0, handOver: 0, anew: 0, restart: 0, cut: 0, storm: 0 };
const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);
const LONGEST_MS = 300_000;

/** Asks one question of a cluster that has these troubles, and returns it when it is answered. */
async function answered(
  seed: number,
  troubles: Troubles,
  transports: readonly TransportName[],
): Promise<{ asked: Asked; cluster: SimulatedCluster }> {
  const random = new SeededRandom(seed);
  const network = new FakeNetwork();
  network.random = () => random.next();
  const cluster = new SimulatedCluster(network, random, troubles);
  const asked = new Asked(new EvenflowClient({ url: "http://test", transports }));
  for (let ms = 0; ms < LONGEST_MS && !asked.ended; ms += 500) await pass(500);
  cluster.stop();
  return { asked, cluster };
}

/** Goes through what was told of the text, and fails where a piece comes twice without a restart between. */
function expectEachPieceOnce(asked: Asked): void {
  let shown = "";
  let last = -1;
  for (const event of asked.events) {
    if (event.type === "restarted") {
      expect(event.keep).toBeLessThanOrEqual(shown.length);
      shown = shown.slice(0, event.keep);
      last = -1;
    }
    if (event.type !== "delta") continue;
    expect(event.from).toBeGreaterThan(last);
    last = event.index;
    shown += event.text;
    const tokens = shown.split(" ");
    expect(new Set(tokens).size).toBe(tokens.length);
  }
}

/** What the log says in the end, put together in the plainest way. */
function partsOf(log: SimulatedLog): unknown[] {
  const parts: { type: string; text?: string; [field: string]: unknown }[] = [];
  for (const content of log.contents) {
    const {
      kind,
      text = "",
      call = 0,
      id = "",
      name = "",
      value,
    } = typeof content === "string" ? { kind: "text", text: content } : (content as Partial<Event>);
    const tool = [...parts]
      .reverse()
      .find((part) => part.type === "tool" && (kind === "result" ? part.id === id : part.call === call));
    const last = parts.at(-1);
    if (kind === "text" || kind === "reasoning") {
      if (last?.type === kind) last.text += text;
      else parts.push({ type: kind, text });
    } else if (kind === "call") parts.push({ type: "tool", call, id, name, arguments: "", isComplete: false });
    else if (kind === "data") parts.push({ type: "source", title: "", ...(value as object) });
    else if (tool === undefined) continue;
    else if (kind === "arguments") tool.arguments += text;
    else Object.assign(tool, { isComplete: true }, kind === "result" ? { result: text } : {});
  }
  return parts;
}

/** Everything that can happen to an answer. */
const TROUBLES = { crash: 0.01, handOver: 0.01, anew: 0.3, restart: 0.005, cut: 0.005, storm: 0.003 };
const LADDERS: readonly (readonly TransportName[])[] = [
  ["websocket", "long-poll"],
  ["websocket", "sse", "long-poll"],
  ["sse", "long-poll"],
  ["sse"],
];

describe.each(LADDERS)("an answer of a cluster whose tasks come and go, by %s %s %s", (...transports) => {
  it.each(SEEDS)("is what the log says in the end, and no piece of it came twice: seed %i", async (seed) => {
    const { asked, cluster } = await answered(seed, TROUBLES, transports);
    expect([asked.ended, asked.error]).toEqual([true, undefined]);
    expect(asked.text).toBe(cluster.log.read(0).text);
    expect(asked.answer.parts).toEqual(partsOf(cluster.log));
    expect(asked.parts).toEqual(asked.answer.parts);
    expectEachPieceOnce(asked);
  });
});

describe("an answer of a cluster that is deployed anew", () => {
  it.each(SEEDS)("is not disturbed by tasks that leave in good order: seed %i", async (seed) => {
    const { asked, cluster } = await answered(seed, { ...CALM, handOver: 0.03 }, ["websocket", "sse", "long-poll"]);
    expect(asked.text).toBe(cluster.log.read(0).text);
    expectEachPieceOnce(asked);
    const quiet = ["transport", "accepted", "delta", "part", "resumed", "completed"];
    expect(asked.events.filter((event) => !quiet.includes(event.type))).toEqual([]);
    expect(asked.of("transport")).toHaveLength(1);
  });
});
