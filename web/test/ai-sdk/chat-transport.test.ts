import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { EvenflowChatTransport } from "../../src/ai-sdk/chat-transport.ts";

const API = "http://test/api/chat";
const QUESTION = { chatId: "c", messages: [], trigger: "submit-message", messageId: undefined } as const;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

test("an answer whose server leaves is read at another one, which may leave, too, and then says so", async () => {
  const calls: string[] = [];
  const event = 'id: 0\ndata: {"type":"text-delta","delta":"a"}\n\n';
  const transport = new EvenflowChatTransport({
    api: API,
    fetch: async (url) => {
      calls.push(String(url));
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new TextEncoder().encode(`${event}: reconnect 10\n`)),
      });
      const headers = { "content-type": "text/event-stream", "x-request-id": "rsp_1" };
      return new Response(body, { headers });
    },
  });
  const reader = (await transport.sendMessages(QUESTION)).getReader();
  await reader.read();
  void reader.read();
  await vi.advanceTimersByTimeAsync(100);
  expect(calls[1]).toBe(`${API}/c/stream?response_id=rsp_1&moving=1`);
  await reader.cancel();
});

test.each([
  ["does not stop what was asked since", true, [API]],
  ["reaches the server, where nothing was asked since", false, [`${API}/c/stop`]],
])("a stop of a question that never arrived %s", async (_, isAskedAgain, expected) => {
  const calls: string[] = [];
  let isReached = false;
  const transport = new EvenflowChatTransport({
    api: API,
    fetch: async (url) => {
      if (!isReached) throw new TypeError("Failed to fetch");
      calls.push(String(url));
      return new Response("data: [DONE]\n\n", { headers: { "content-type": "text/event-stream" } });
    },
  });
  const abort = new AbortController();
  transport.sendMessages({ ...QUESTION, abortSignal: abort.signal }).catch(() => {});
  await vi.advanceTimersByTimeAsync(100);
  abort.abort();
  await vi.advanceTimersByTimeAsync(100);
  const next = isAskedAgain ? transport.sendMessages(QUESTION) : undefined;
  await vi.advanceTimersByTimeAsync(100);
  isReached = true;
  await vi.advanceTimersByTimeAsync(20_000);
  await next;
  expect(calls).toEqual(expected);
});
