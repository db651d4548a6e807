import { expect, test, vi } from "vitest";
import { getThrough, LastingAnswer } from "../../src/ai-sdk/lasting-answer.ts";

const START = 'data: {"type":"text-start","id":"0"}\n\n';
const delta = (index: number, text: string) => `id: ${index}\ndata: {"type":"text-delta","delta":"${text}"}\n\n`;
const DONE = "data: [DONE]\n\n";

/** An answer of the server that brings these pieces; with `breaks` its connection is lost then. */
function answered(pieces: string[], { breaks = false } = {}): Response {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece !== undefined) return controller.enqueue(new TextEncoder().encode(piece));
      if (breaks) controller.error(new TypeError("network error"));
      else controller.close();
    },
  });
  return new Response(body, { headers: { "x-request-id": "rsp_1" } });
}

async function read(first: Response, ...others: Response[]) {
  const again = vi.fn(async () => others.shift() ?? answered([], { breaks: true }));
  const onEnd = vi.fn();
  const chunks: string[] = [];
  for await (const chunk of new LastingAnswer(again, onEnd).chunks(first)) chunks.push(JSON.stringify(chunk));
  return { chunks, again, onEnd };
}

const said = (...texts: string[]) => texts.map((delta) => `{"type":"text-delta","delta":"${delta}"}`);
const BEGUN = '{"type":"text-start","id":"0"}';

test("an answer is given chunk by chunk, wherever the network cuts it", async () => {
  const whole = START + delta(0, "a") + delta(1, "ü") + DONE;
  const bytes = [...whole];
  const { chunks, again, onEnd } = await read(answered(bytes));
  expect(chunks).toEqual([BEGUN, ...said("a", "ü")]);
  expect(again).not.toHaveBeenCalled();
  expect(onEnd).toHaveBeenCalledOnce();
});

test("a lost connection goes on behind the last chunk that has an id", async () => {
  const lost = answered([START, delta(0, "a")], { breaks: true });
  const { chunks, again } = await read(lost, answered([delta(1, "b"), DONE]));
  expect(chunks).toEqual([BEGUN, ...said("a", "b")]);
  expect(again).toHaveBeenCalledExactlyOnceWith("0", "rsp_1");
});

test("a chunk without an id is held until one with an id follows, and so is given once", async () => {
  const { chunks, again } = await read(answered([START]), answered([START, delta(0, "a"), DONE]));
  expect(chunks).toEqual([BEGUN, ...said("a")]);
  expect(again).toHaveBeenCalledExactlyOnceWith("", "rsp_1");
});

test("who was too slow comes back, and the chat does not see it", async () => {
  const slow = answered([START, delta(0, "a"), 'data: {"type":"error","code":"too_slow"}\n\n', DONE]);
  const { chunks } = await read(slow, answered([delta(1, "b"), DONE]));
  expect(chunks).toEqual([BEGUN, ...said("a", "b")]);
});

test("an error of the answer is its end", async () => {
  const failed = '{"type":"error","errorText":"it broke","code":"upstream_failed"}';
  const { chunks, again } = await read(answered([START, delta(0, "a"), `data: ${failed}\n\n`, DONE]));
  expect(chunks).toEqual([BEGUN, ...said("a"), failed]);
  expect(again).not.toHaveBeenCalled();
});

test("connections that bring nothing are opened only so often", async () => {
  await expect(read(answered([], { breaks: true }))).rejects.toThrow(/^network error/);
});

test.each([{ "retry-after": "61" }, { "retry-after": "5", "x-should-retry": "false" }])(
  "a refusal that does not pass soon is the answer, at once: %o",
  async (headers) => {
    const refused = new Response(null, { status: 429, headers });
    const call = vi.fn(async () => refused);
    expect(await getThrough(call, undefined)).toBe(refused);
    expect(call).toHaveBeenCalledOnce();
  },
);

test("a refusal that passes soon is tried again", async () => {
  vi.useFakeTimers();
  const answers = [new Response(null, { status: 429, headers: { "retry-after": "60" } }), answered([DONE])];
  const call = vi.fn(async () => answers.shift() ?? answered([]));
  const response = getThrough(call, undefined);
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  expect((await response).status).toBe(200);
  expect(call).toHaveBeenCalledTimes(2);
});
