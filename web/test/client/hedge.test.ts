import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { hedged } from "../../src/client/hedge.ts";

interface Call {
  readonly signal: AbortSignal;
  answer(what: string): void;
  fail(error: Error): void;
}

let calls: Call[];
let outcome: unknown;

beforeEach(() => {
  vi.useFakeTimers();
  calls = [];
  outcome = undefined;
  const call = (signal: AbortSignal) =>
    new Promise<string>((answer, fail) => {
      calls.push({ signal, answer, fail });
    });
  hedged(new AbortController().signal, call).then(
    (answer) => (outcome = answer),
    (error: unknown) => (outcome = error),
  );
});

afterEach(() => {
  vi.useRealTimers();
});

async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

it("makes one call where that is answered", async () => {
  calls[0]?.answer("here");
  await pass(10_000);
  expect([outcome, calls.length, calls[0]?.signal.aborted]).toEqual(["here", 1, false]);
});

it("makes more beside one that is not, and aborts all but the first that is", async () => {
  await pass(10_000);
  expect(calls).toHaveLength(3);
  calls[1]?.answer("here");
  await pass();
  expect([outcome, calls.map(({ signal }) => signal.aborted)]).toEqual(["here", [true, false, true]]);
  calls[0]?.fail(new Error("aborted"));
  await pass();
  expect(calls[1]?.signal.aborted, "its body is still to be read").toBe(false);
});

it("fails with the first that does", async () => {
  await pass(600);
  const error = new Error("refused");
  calls[1]?.fail(error);
  await pass(10_000);
  expect([outcome, calls.length, calls[0]?.signal.aborted]).toEqual([error, 2, true]);
});
