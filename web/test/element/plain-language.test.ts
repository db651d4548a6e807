import { describe, expect, it } from "vitest";
import {
  AnswerError,
  BusyError,
  ConnectionError,
  ProtocolError,
  RefusedError,
  ReplacedError,
} from "../../src/client/errors.ts";
import { explain } from "../../src/element/plain-language.ts";

function refused(type: string, code: string): RefusedError {
  return new RefusedError({ type, code, message: "E_INTERNAL 0x7f" });
}

describe("explain", () => {
  it.each([
    [new ConnectionError("fetch failed"), "cannot be reached", true],
    [new ProtocolError("bad frame"), "do not understand", false],
    [new ReplacedError(), "another place", true],
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
    for (const { remedy } of errors.map(explain)) expect(remedy).not.toMatch(/reload[^,.]*(?:start|new)/i);
  });

  it("does not show the words of a machine", () => {
    const { what, remedy } = explain(refused("rate_limit_error", "rate_limited"));
    expect(what + remedy).not.toMatch(/E_INTERNAL|rate_limit/);
  });
});
