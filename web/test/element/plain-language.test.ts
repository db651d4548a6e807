import { describe, expect, it } from "vitest";
import {
  AnswerError,
  BusyError,
  ConnectionError,
  ProtocolError,
  RefusedError,
  ReplacedError,
} from "../../src/client/errors.ts";
import type { Explanation } from "../../src/element/error-codes.ts";
import { explain as explainIn } from "../../src/element/plain-language.ts";
import { ENGLISH } from "../../src/element/strings.ts";

function refused(type: string, code: string): RefusedError {
  return new RefusedError({ type, code, message: "E_INTERNAL 0x7f" });
}

function failed(code: string): AnswerError {
  return new AnswerError({ type: "upstream_error", code, message: "x" });
}

function explain(error: unknown, hasText?: boolean, now?: Date): Explanation {
  return explainIn(error, ENGLISH, hasText, now);
}

describe("explain", () => {
  it.each([
    [new ConnectionError("fetch failed"), "cannot be reached", true],
    [new ProtocolError("bad frame"), "do not understand", false],
    [new ReplacedError(), "somewhere else", true],
    [new BusyError(), "on its way", false],
    [refused("rate_limit_error", "queue_full"), "very busy", true],
    [refused("overloaded_error", "node_full"), "very busy", true],
    [refused("overloaded_error", "reconnect_storm"), "coming back", true],
    [refused("overloaded_error", "response_elsewhere"), "Another server", true],
    [refused("authentication_error", "token_invalid"), "let this page in", true],
    [refused("invalid_request_error", "message_too_large"), "too long", false],
    [refused("invalid_request_error", "invalid_field"), "do not understand", false],
    [refused("conflict_error", "causal_violation"), "somewhere else", true],
    [refused("not_found_error", "response_expired"), "no longer has", true],
    [failed("model_not_set_up"), "not set up", false],
    [failed("insufficient_quota"), "quota", false],
    [failed("upstream_throttled"), "asked too much", true],
    [failed("not_repeated"), "A server failed", false],
    [failed("queue_timeout"), "waiting for the model", true],
    [failed("context_length_exceeded"), "too long for the model", false],
    [failed("content_policy_violation"), "content policy", false],
    [new AnswerError({ type: "model_refusal_error", code: "model_refused", message: "x" }), "declined", false],
    [new AnswerError({ type: "upstream_error", code: "model_timeout", message: "x" }), "too long", true],
    [new AnswerError({ type: "upstream_error", code: "upstream_failed", message: "x" }), "model failed", true],
    [new AnswerError({ type: "upstream_error", code: "attempts_exhausted", message: "x" }), "Several servers", true],
    [Object.assign(new Error("closed"), { kind: "closed" }), "was closed", false],
    [new TypeError("undefined is not a function"), "in this page", false],
    ["not even an error", "in this page", false],
  ])("says what %s means and what to do", (error, what, askAgain) => {
    const explanation = explain(error);
    expect(explanation.what).toContain(what);
    expect(explanation.remedy).not.toBe("");
    expect(explanation.askAgain).toBe(askAgain);
  });

  const NOON = new Date("2026-11-24T12:00:00Z");
  const LONGEST_MS = 2 ** 31 - 1; // which the server says where it is longer

  it.each([
    ["budget_exhausted", 12 * 3_600_000, "Your budget for today is used up.", "It begins anew at 00:00 UTC."],
    [
      "budget_exhausted",
      6.5 * 86_400_000,
      "Your budget for this month is used up.",
      "It begins anew on December 1, 00:00 UTC.",
    ],
    [
      "budget_exhausted",
      LONGEST_MS,
      "Your budget for this month is used up.",
      "It begins anew on December 1, 00:00 UTC.",
    ],
    [
      "tenant_limit",
      61_000,
      "The service is very busy right now.",
      "Your question was not accepted. Try again in 2 minutes.",
    ],
    [
      "upstream_throttled",
      3 * 3_600_000,
      "The model is asked too much right now.",
      "Your question was not accepted. Try again in 3 hours.",
    ],
    ["upstream_throttled", 60_000, "The model is asked too much right now.", "Wait a minute, then try again."],
  ])("says of %s for %i ms when it is over", (code, retry_after_ms, what, remedy) => {
    const error = new RefusedError({ type: "rate_limit_error", code, message: "E_INTERNAL 0x7f", retry_after_ms });
    expect(explain(error, false, NOON)).toEqual({ what, remedy, askAgain: true });
  });

  it("says of a budget for which no time is told that it is used up", () => {
    const { what, remedy } = explain(refused("rate_limit_error", "budget_exhausted"));
    expect([what, remedy]).toEqual(["Your budget is used up.", "It begins anew with the next day or month of UTC."]);
  });

  it("does not promise that a server which is not set up answers in a minute", () => {
    const { remedy } = explain(new AnswerError({ type: "upstream_error", code: "model_not_set_up", message: "x" }));
    expect(remedy).toContain("operator has been notified");
    expect(remedy).not.toMatch(/again|minute/);
  });

  it("gives the server's words for a code that is new with it", () => {
    const body = { type: "upstream_error", code: "toString", message: "The model is on holiday until Monday." };
    expect(explain(new AnswerError(body)).remedy).toBe(body.message);
    expect(explain(new RefusedError({ ...body, type: "quota_error" })).remedy).toBe(body.message);
  });

  it("gives the backend's reason, and does not offer to hear it again", () => {
    const body = { type: "upstream_error", code: "upstream_explained", message: "There is no stock data today." };
    const { remedy, askAgain } = explain(new AnswerError(body));
    expect([remedy, askAgain]).toEqual([body.message, false]);
  });

  it("says of an answer that a server has lost what has become of its text", () => {
    const lost = refused("not_found_error", "response_not_found");
    expect(explain(lost, true)).toMatchObject({ what: "The rest of this answer is lost.", askAgain: true });
    expect(explain(lost, true).remedy).toContain("stays above");
    for (const hasText of [true, false]) expect(explain(lost, hasText).remedy).not.toMatch(/started|minutes/);
    expect(explain(lost, false).what).toContain("no longer has");
  });

  it("offers to go on only where there is a text, and the model remembers it", () => {
    const offers = (code: string, hasText: boolean): boolean | undefined =>
      explain(new AnswerError({ type: "upstream_error", code, message: "x" }), hasText).goOn;
    expect(offers("upstream_failed", true)).toBe(true);
    expect(offers("upstream_failed", false)).toBe(false);
    expect(offers("attempts_exhausted", true)).toBe(false);
    expect(explain(new ConnectionError("lost"), true).goOn).toBeUndefined();
  });

  it("says that the message of an answer that was given up is kept, and can be sent again", () => {
    const { remedy } = explain(new AnswerError({ type: "upstream_error", code: "attempts_exhausted", message: "x" }));
    expect(remedy).toMatch(/message is kept, and can be sent again/);
  });

  it("promises no new conversation of a reload, which goes on with the one there is", () => {
    const errors = [
      new ReplacedError(),
      refused("conflict_error", "causal_violation"),
      refused("authentication_error", "token_invalid"),
      Object.assign(new Error("closed"), { kind: "closed" }),
    ];
    for (const { remedy } of errors.map((error) => explain(error)))
      expect(remedy).not.toMatch(/reload[^,.]*(?:start|new)/i);
  });

  it("does not show the words of a machine", () => {
    const { what, remedy } = explain(refused("rate_limit_error", "rate_limited"));
    expect(what + remedy).not.toMatch(/E_INTERNAL|rate_limit/);
  });
});
