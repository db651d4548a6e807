import type { AnswerEvent } from "./api.ts";
import { delay } from "./delay.ts";
import { AnswerError } from "./errors.ts";
import { HttpTransport } from "./http-transport.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import { isFinal, type Poll, poll } from "./poll.ts";

/** Plain HTTP, which passes everywhere. The server lets a poll linger, so that an answer costs few of them. */
export class LongPollTransport extends HttpTransport {
  readonly name = "long-poll";

  protected async *follow(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void> {
    for (;;) {
      const askedAt = Date.now();
      const from = inquiry.text.lastIndex + 1;
      const found = await poll(this.session, inquiry, LIMITS.pollTimeoutMs);
      const taken = yield* take(inquiry, found);
      yield { type: "polled" };
      if (taken && isFinal(found)) return yield* finish(found);
      const spare = askedAt + LIMITS.emptyPollMs - Date.now();
      if (found.metadata.next_index <= from && spare > 0) await delay(spare, inquiry.abandoned);
    }
  }
}

/** Adds to the text what a poll has brought; false when more than that must be polled again. */
function* take({ text }: Inquiry, { new_text: news, metadata }: Poll): Generator<AnswerEvent, boolean, void> {
  const keepUpTo = metadata.restarted?.from_index ?? text.lastIndex;
  if (keepUpTo < text.lastIndex) {
    const exact = text.keep(keepUpTo);
    yield { type: "restarted", keep: text.text.length };
    // An earlier poll had joined text from both sides of the cut: that much is polled again.
    if (!exact) return false;
  }
  const from = text.lastIndex + 1;
  const index = metadata.next_index - 1;
  const outcome = text.append(from, index, news);
  text.confirm(metadata.epoch);
  if (outcome.kind === "appended" && outcome.text !== "") yield { type: "delta", text: outcome.text, from, index };
  return true;
}

function* finish({ status, metadata }: Poll): Generator<AnswerEvent, void, void> {
  const { next_index, finish_reason, usage, degraded, error } = metadata;
  if (error !== null) throw new AnswerError(error);
  const finishReason = finish_reason ?? (status === "cancelled" ? status : "stop");
  yield { type: "completed", finishReason, lastIndex: next_index - 1, usage, degraded };
}
