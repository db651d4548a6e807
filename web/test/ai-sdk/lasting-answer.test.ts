import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LastingAnswer } from "../../src/ai-sdk/lasting-answer.ts";
import { WakeUps } from "../../src/client/wake-up.ts";

const START = 'data: {"type":"text-start","id":"0"}\n\n';
const delta = (index: number, text: string) => `id: ${index}\ndata: {"type":"text-delta","delta":"${text}"}\n\n`;
const DONE = "data: [DONE]\n\n";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The server's end of one connection. */
class Connection {
  readonly response: Response;
  isLeft = false;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor() {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.isLeft = true;
      },
    });
    this.response = new Response(body, { headers: { "x-request-id": "rsp_1" } });
  }

  bring(...pieces: string[]): this {
    for (const piece of pieces) this.#controller?.enqueue(new TextEncoder().encode(piece));
    return this;
  }

  break(): this {
    this.#controller?.error(new TypeError("network error"));
    return this;
  }
}

/** An answer that is read, and the connections that it has opened; each is there at once. */
class Scene {
  readonly connections: Connection[] = [new Connection()];
  readonly asked: string[] = [];
  readonly chunks: string[] = [];
  readonly wakeUps = new WakeUps();
  readonly onEnd = vi.fn();
  error: unknown;
  /** How long it takes until the next one is there. */
  openMs = 0;
  refusal: Error | undefined;
  readonly #answer: LastingAnswer;

  constructor() {
    const again = async (lastId: string, id: string | undefined, signal: AbortSignal, isMoving = false) => {
      this.asked.push(`${id} ${lastId}${isMoving ? " moving" : ""}`);
      if (this.openMs > 0) await new Promise((resolve) => setTimeout(resolve, this.openMs));
      signal.throwIfAborted();
      if (this.refusal) throw this.refusal;
      const connection = new Connection();
      this.connections.push(connection);
      return connection.response;
    };
    this.#answer = new LastingAnswer(again, this.wakeUps, this.onEnd);
  }

  get last(): Connection {
    return this.connections.at(-1) as Connection;
  }

  async begin(...pieces: string[]): Promise<void> {
    this.last.bring(...pieces);
    void this.#read();
    await pass();
  }

  async #read(): Promise<void> {
    try {
      for await (const chunk of this.#answer.chunks(this.last.response)) this.chunks.push(JSON.stringify(chunk));
    } catch (error) {
      this.error = error;
    }
  }

  leave(): void {
    this.#answer.leave();
  }
}

async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

const said = (...texts: string[]) => texts.map((delta) => `{"type":"text-delta","delta":"${delta}"}`);
const BEGUN = '{"type":"text-start","id":"0"}';

test("an answer is given chunk by chunk, wherever the network cuts it", async () => {
  const scene = new Scene();
  await scene.begin(...(START + delta(0, "a") + delta(1, "ü") + DONE));
  expect(scene.chunks).toEqual([BEGUN, ...said("a", "ü")]);
  expect(scene.asked).toEqual([]);
  expect(scene.onEnd).toHaveBeenCalledOnce();
});

test("a lost connection goes on behind the last chunk that has an id", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  scene.last.break();
  await pass(500);
  scene.last.bring(delta(1, "b"), DONE);
  await pass();
  expect(scene.chunks).toEqual([BEGUN, ...said("a", "b")]);
  expect(scene.asked).toEqual(["rsp_1 0"]);
});

test("a chunk without an id is held until one with an id follows, and so is given once", async () => {
  const scene = new Scene();
  await scene.begin(START);
  scene.last.break();
  await pass(500);
  scene.last.bring(START, delta(0, "a"), DONE);
  await pass();
  expect(scene.chunks).toEqual([BEGUN, ...said("a")]);
  expect(scene.asked).toEqual(["rsp_1 "]);
});

test("who was too slow comes back, and the chat does not see it", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"), 'data: {"type":"error","code":"too_slow"}\n\n', DONE);
  await pass(500);
  scene.last.bring(delta(1, "b"), DONE);
  await pass();
  expect(scene.chunks).toEqual([BEGUN, ...said("a", "b")]);
});

test("an error of the answer is its end", async () => {
  const failed = '{"type":"error","errorText":"it broke","code":"upstream_failed"}';
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"), `data: ${failed}\n\n`, DONE);
  expect(scene.chunks).toEqual([BEGUN, ...said("a"), failed]);
  expect(scene.asked).toEqual([]);
});

test("connections that bring nothing are opened again, less often than they break, for as long as it takes", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  for (let lost = 0; lost < 100; lost += 1) {
    scene.last.break();
    await pass(2_000);
  }
  expect(scene.asked).toHaveLength(100);
  scene.last.bring(delta(1, "b"), DONE);
  await pass();
  expect([scene.chunks, scene.error]).toEqual([[BEGUN, ...said("a", "b")], undefined]);
});

test("what the server refuses for good is the end", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  scene.refusal = new Error("gone");
  scene.last.break();
  await pass(500);
  expect(scene.error).toBe(scene.refusal);
});

test("a connection that falls silent has the next one beside it, which is read once it brings something", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  await pass(2_500);
  expect(scene.asked).toEqual(["rsp_1 0"]);
  scene.last.bring(delta(1, "b"));
  await pass();
  expect([scene.chunks.slice(1), scene.connections[0]?.isLeft]).toEqual([said("a", "b"), true]);
});

test("and is read on where it lives", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  await pass(2_500);
  const [first, second] = scene.connections;
  first?.bring(": still here\n");
  await pass();
  expect([first?.isLeft, second?.isLeft]).toEqual([false, true]);
  first?.bring(delta(1, "b"));
  await pass();
  expect(scene.chunks.slice(1)).toEqual(said("a", "b"));
});

test("a wake-up does the same at once, but not to a connection that has just brought something", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  scene.wakeUps.ring();
  await pass();
  expect(scene.asked).toEqual([]);
  await pass(200);
  scene.wakeUps.ring();
  await pass();
  expect(scene.asked).toEqual(["rsp_1 0"]);
});

test("a server that leaves is read until the next one has begun, and nothing comes twice", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"), ": reconnect 1000\n");
  await pass(900);
  scene.last.bring(delta(1, "b"));
  await pass(200);
  const [first, second] = scene.connections;
  expect([scene.asked, first?.isLeft]).toEqual([["rsp_1 1 moving"], false]);
  first?.bring(delta(2, "c"));
  await pass();
  second?.bring(delta(2, "c"), delta(3, "d"), DONE);
  await pass();
  expect(scene.chunks.slice(1)).toEqual(said("a", "b", "c", "d"));
});

test("and is read on where the next one takes its time, or is refused", async () => {
  const scene = new Scene();
  scene.openMs = 60_000;
  await scene.begin(START, delta(0, "a"), ": reconnect 0\n");
  await pass(100);
  const [first] = scene.connections;
  first?.bring(delta(1, "b"));
  await pass(500);
  expect(scene.chunks.slice(1)).toEqual(said("a", "b"));
  scene.openMs = 0;
  await pass(2_000);
  scene.last.bring(delta(2, "c"), DONE);
  await pass();
  expect(scene.chunks.slice(1)).toEqual(said("a", "b", "c"));
});

test("a chat that is left opens nothing any more", async () => {
  const scene = new Scene();
  await scene.begin(START, delta(0, "a"));
  scene.leave();
  await pass(60_000);
  expect(scene.asked).toEqual([]);
});
