import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GettingThrough } from "../../src/ai-sdk/getting-through.ts";
import { WakeUps } from "../../src/client/wake-up.ts";

let wakeUps: WakeUps;
/** What is answered, one call after another; the last one again and again. */
let answers: (() => Promise<Response>)[];
let isReachable: boolean;
let calls: number;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.99);
  wakeUps = new WakeUps();
  answers = [];
  isReachable = true;
  calls = 0;
});

afterEach(() => {
  vi.useRealTimers();
});

const stream = async () => new Response("data: [DONE]\n\n", { headers: { "content-type": "text/event-stream" } });
const refused =
  (status: number, headers: Record<string, string> = {}) =>
  async () =>
    new Response('{"error":{}}', { status, headers: { "content-type": "application/json", ...headers } });
const pageOf = (status: number) => async () =>
  new Response("<html>", { status, headers: { "content-type": "text/html" } });
const unreachable = async () => {
  throw new TypeError("Failed to fetch");
};
/** Nothing comes, and the signal is all that ends it. */
const dark = () => new Promise<Response>(() => {});

/** Makes the call; gives what it is answered with once it is. */
function respond(isAccepted = false, signal = new AbortController().signal) {
  const probe = async () => (isReachable ? refused(404)() : unreachable());
  const call = () => {
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    calls += 1;
    return answer?.() ?? unreachable();
  };
  const outcome: { response?: Response; error?: unknown } = {};
  new GettingThrough(probe, wakeUps).respond(call, signal, isAccepted).then(
    (response) => (outcome.response = response),
    (error: unknown) => (outcome.error = error),
  );
  return outcome;
}

async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

test.each([
  ["429 that is over in a minute and more", refused(429, { "retry-after": "61" })],
  ["429 that says so", refused(429, { "retry-after": "5", "x-should-retry": "false" })],
  ["502 of the server's own: the model has failed", refused(502)],
  ["503 that says nothing of a time", refused(503)],
  ["504", refused(504)],
  ["401 of whatever server", pageOf(401)],
  ["500 of whatever server", pageOf(500)],
])("a %s is the answer, at once", async (_, answer) => {
  answers = [answer, stream];
  const outcome = respond();
  await pass();
  expect([outcome.response?.ok, calls]).toEqual([false, 1]);
});

test.each([429, 503])("a %i that passes soon is tried again when it says", async (status) => {
  answers = [refused(status, { "retry-after": "60" }), stream];
  const outcome = respond();
  await pass(59_999);
  expect(calls).toBe(1);
  await pass(1_001);
  expect([outcome.response?.status, calls]).toEqual([200, 2]);
});

test("a question is refused so often, and no more; an answer that there is, is asked for on", async () => {
  answers = [refused(503, { "retry-after": "1" })];
  const [question, answer] = [respond(), respond(true)];
  await pass(600_000);
  expect([question.response?.status, answer.response]).toEqual([503, undefined]);
});

test.each([
  ["no connection", unreachable],
  ["a proxy's page", pageOf(502)],
  ["a login page", pageOf(200)],
])("with %s it is tried every two seconds at most, for as long as it takes", async (_, answer) => {
  answers = [answer];
  const outcome = respond();
  await pass(300_000);
  expect(calls).toBeGreaterThan(140);
  expect([outcome.response, outcome.error]).toEqual([undefined, undefined]);
  answers = [stream];
  await pass(2_000);
  expect(outcome.response?.status).toBe(200);
});

test.each([401, 403, 404, 500])("with a page of status %i an accepted answer is tried for on", async (status) => {
  answers = [pageOf(status)];
  const outcome = respond(true);
  await pass(60_000);
  expect([outcome.response, outcome.error]).toEqual([undefined, undefined]);
  answers = [refused(404)];
  await pass(2_000);
  expect(outcome.response?.status, "this is the server's").toBe(404);
});

test("that nothing answers is said to the page's maker after some seconds, once", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  const through = new GettingThrough(unreachable, wakeUps);
  const never = new AbortController().signal;
  for (const _ of [1, 2]) void through.respond(unreachable, never, false);
  await pass(7_000);
  expect(said).not.toHaveBeenCalled();
  await pass(60_000);
  expect(said.mock.calls).toEqual([[expect.stringContaining("correct `api`")]]);
  said.mockRestore();
});

test("that a server is out of reach which has answered before is no news", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  const through = new GettingThrough(unreachable, wakeUps);
  const never = new AbortController().signal;
  await through.respond(refused(404), never, false);
  void through.respond(unreachable, never, false);
  await pass(60_000);
  expect(said).not.toHaveBeenCalled();
  said.mockRestore();
});

test("a call that hangs in a black hole is made anew", async () => {
  answers = [dark];
  isReachable = false;
  respond();
  await pass(60_000);
  expect(calls).toBeGreaterThan(10);
});

test("one that only takes long is not", async () => {
  answers = [dark];
  respond();
  await pass(60_000);
  expect(calls).toBe(1);
});

test("a wake-up makes it at once, in the place of one that hangs as well", async () => {
  answers = [unreachable];
  const outcome = respond();
  await pass(700_000);
  answers = [dark, stream];
  wakeUps.ring();
  await pass();
  await pass(200);
  wakeUps.ring();
  await pass();
  expect(outcome.response?.status).toBe(200);
});

test("an aborted chat tries no more", async () => {
  answers = [unreachable];
  const chat = new AbortController();
  const outcome = respond(true, chat.signal);
  await pass(10_000);
  const before = calls;
  chat.abort();
  await pass(60_000);
  expect([outcome.error, calls]).toEqual([chat.signal.reason, before]);
});

test("a mistake in what makes the headers is no loss", async () => {
  const mistake = new Error("no token");
  answers = [() => Promise.reject(mistake)];
  const outcome = respond();
  await pass();
  expect(outcome.error).toBe(mistake);
});
