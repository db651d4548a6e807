import { describe, expect, it } from "vitest";
import { readFrame } from "../../src/client/read-frame.ts";

function decode(value: unknown): unknown {
  return readFrame(JSON.stringify(value));
}

const START = {
  type: "chat.response.start",
  session_id: "s",
  response_id: "r",
  message_id: "m",
  status: "queued",
  next_index: 0,
  duplicate: false,
};
const ERROR = { type: "rate_limit_error", code: "rate_limited", message: "slow down" };

describe("readFrame", () => {
  it("reads a delta, single and joined", () => {
    const delta = { type: "chat.response.delta", session_id: "s", response_id: "r", delta: "x", index: 4 };
    expect(decode(delta)).toEqual({ type: "chat.response.delta", response_id: "r", delta: "x", from: null, index: 4 });
    expect(decode({ ...delta, from: 2 })).toMatchObject({ from: 2, index: 4 });
  });

  it("reads compact deltas by the number that the start of their response has given", () => {
    const streams = new Map();
    const read = (value: unknown) => readFrame(JSON.stringify(value), streams);
    read({ ...START, stream: 0 });
    read({ ...START, response_id: "other", stream: 1 });
    expect(read([0, 4, "x"])).toEqual({
      type: "chat.response.delta",
      response_id: "r",
      delta: "x",
      from: null,
      index: 4,
    });
    expect(read([1, 4, "xyz", 2])).toMatchObject({ response_id: "other", delta: "xyz", from: 2, index: 4 });
    expect(read([2, 4, "x"])).toEqual({ type: "garbled" });
    expect(read([0, "4", "x"])).toEqual({ type: "garbled" });
  });

  it("reads what is no text, in both forms alike", () => {
    const content = { kind: "call", call: 1, id: "call_1", name: "weather" };
    const read = { ...content, text: "", value: undefined, choice: 0, response_id: "r", index: 4, from: null };
    expect(decode({ type: "chat.response.event", response_id: "r", index: 4, ...content })).toEqual({
      type: "chat.response.event",
      ...read,
    });
    const streams = new Map([[0, "r"]]);
    expect(readFrame(JSON.stringify([0, 4, content]), streams)).toEqual({ type: "chat.response.event", ...read });
    const joined = [0, 4, { kind: "reasoning", text: "abc" }, 2];
    expect(readFrame(JSON.stringify(joined), streams)).toMatchObject({ kind: "reasoning", text: "abc", from: 2 });
    expect(readFrame("[0,4,{}]", streams)).toEqual({ type: "garbled" });
  });

  it.each([
    ["session.ready", { session_id: "s", limits: { message_bytes: 9 } }, {}],
    ["chat.response.start", { ...START, next_index: 4, epoch: 3 }, { next_index: 4, epoch: 3 }],
    ["chat.response.start", START, { epoch: 1 }],
    [
      "chat.response.restarted",
      { response_id: "r", from_index: -1, attempt: 2, index: 7 },
      { from_index: -1, epoch: 1 },
    ],
    [
      "chat.response.restarted",
      { response_id: "r", from_index: -1, attempt: 2, index: -1, epoch: 2 },
      { index: -1, epoch: 2 },
    ],
    [
      "chat.response.completed",
      { response_id: "r", finish_reason: "length", last_index: 3, usage: null, degraded: true },
      { finish_reason: "length", usage: null, degraded: true },
    ],
    ["chat.response.error", { response_id: "r", last_index: -1, error: ERROR }, { error: ERROR }],
    ["chat.response.queued", { response_id: "r", position: 2 }, { position: 2, expected_seconds: null }],
    ["lag", { response_id: "r", behind_deltas: 70, behind_ms: 4000 }, { behind_deltas: 70 }],
    ["throttle", { retry_after_ms: 500, error: ERROR }, { message_id: null, retry_after_ms: 500 }],
    ["system.busy", { retry_after_ms: 500, message_id: "m", error: ERROR }, { message_id: "m" }],
    ["reconnect", { reason: "drain", after_ms: 800 }, { after_ms: 800 }],
    ["pong", {}, {}],
    ["error", { error: { ...ERROR, expected: null } }, { response_id: null, error: { expected: null } }],
  ])("reads %s", (type, fields, expected) => {
    expect(decode({ session_id: "s", ...fields, type })).toMatchObject({ type, ...expected });
  });

  it("passes on a reason that it does not know", () => {
    const ended = { type: "chat.response.completed", response_id: "r", last_index: 0, finish_reason: "mood" };
    expect(decode(ended)).toMatchObject({ finish_reason: "mood" });
  });

  it("ignores a type that it does not know", () => {
    expect(decode({ type: "chat.response.thought", response_id: "r" })).toBeNull();
  });

  it.each([
    ["text that is not JSON", "{"],
    ["nothing", ""],
    ["a number", "7"],
    ["null", "null"],
    ["an object without a type", "{}"],
    ["an empty array", "[]"],
    ["an array of nonsense", '["3",0,"x"]'],
    ["a delta without an index", '{"type":"chat.response.delta","response_id":"r","delta":"x"}'],
    ["a delta with a fraction", '{"type":"chat.response.delta","response_id":"r","delta":"x","index":1.5}'],
    ["a delta before the first", '{"type":"chat.response.delta","response_id":"r","delta":"x","index":-2}'],
    ["a delta that is not text", '{"type":"chat.response.delta","response_id":"r","delta":null,"index":0}'],
    ["an error without a code", '{"type":"error","error":{"type":"x","message":"y"}}'],
  ])("takes %s for garbled", (_name, data) => {
    expect(readFrame(data)).toEqual({ type: "garbled" });
  });

  it("takes a binary frame for garbled", () => {
    expect(readFrame(new ArrayBuffer(4))).toEqual({ type: "garbled" });
  });

  it("is not misled by what every object has", () => {
    expect(decode({ type: "constructor" })).toBeNull();
    expect(decode({ type: "toString" })).toBeNull();
  });
});
