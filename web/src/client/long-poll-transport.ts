import type { AnswerEvent } from "./api.ts";
import { type Content, inOrder, textContent } from "./content.ts";
import { delay } from "./delay.ts";
import { AnswerError } from "./errors.ts";
import { HttpTransport } from "./http-transport.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import { isFinal, openPoll, type Poll, readPoll } from "./poll.ts";
import type { ResponseLog } from "./response-log.ts";

/** Plain HTTP, which passes everywhere. The server lets a poll linger, so that an answer costs few of them. */
export class LongPollTransport extends HttpTransport {
  readonly name = "long-poll";

  protected async *follow(inquiry: Inquiry, signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void> {
    const timeLimit = LIMITS.pollTimeoutMs + LIMITS.callTimeoutMs;
    const ask = (waitMs: number) =>
      this.session.whileReached(
        signal,
        (signal) => openPoll(this.session, inquiry, waitMs, timeLimit, signal),
        LIMITS.lingerMs,
        waitMs + this.session.patienceMs,
      );
    for (let waitMs = LIMITS.shortPollMs; ; ) {
      const askedAt = Date.now();
      const from = inquiry.log.lastIndex + 1;
      const found = await readPoll(await ask(waitMs), signal);
      this.heardAt = Date.now();
      const dropped = inquiry.dropped(found.metadata);
      const { responseId = "", messageId } = inquiry;
      if (dropped) yield { type: "accepted", responseId, messageId, ...dropped };
      const taken = yield* take(inquiry, found);
      yield { type: "polled" };
      if (taken && isFinal(found)) return yield* finish(found);
      const isEmpty = found.metadata.next_index <= from;
      waitMs = isEmpty ? Math.min(2 * waitMs, LIMITS.pollTimeoutMs) : LIMITS.shortPollMs;
      const spare = askedAt + LIMITS.emptyPollMs - Date.now();
      if (isEmpty && spare > 0) await delay(spare, signal);
    }
  }
}

/** Adds to the log what a poll has brought; false when more than that must be polled again. */
function* take({ log }: Inquiry, { new_text: news, events, metadata }: Poll): Generator<AnswerEvent, boolean, void> {
  const keepUpTo = metadata.restarted?.from_index ?? log.lastIndex;
  if (keepUpTo < log.lastIndex) {
    const exact = log.keep(keepUpTo);
    yield { type: "restarted", keep: log.text.length, parts: log.parts };
    // An earlier poll had joined what is on both sides of the cut: that much is polled again.
    if (!exact) return false;
  }
  for (const { text, part } of inOrder(news, events)) {
    yield* append(log, (part?.index ?? metadata.next_index) - 1, textContent(text));
    if (part) yield* append(log, part.index, part);
  }
  log.confirm(metadata.epoch);
  return true;
}

/** Adds what goes up to `index`. */
function* append(log: ResponseLog, index: number, content: Content): Generator<AnswerEvent, void, void> {
  const outcome = log.append(log.lastIndex + 1, index, content);
  if (outcome.kind !== "appended" || !outcome.growth) return;
  const { growth } = outcome;
  if (growth.type !== "delta" || growth.text !== "") yield growth;
}

function* finish({ status, metadata }: Poll): Generator<AnswerEvent, void, void> {
  const { next_index, finish_reason, usage, degraded, error } = metadata;
  if (error !== null) throw new AnswerError(error);
  const finishReason = finish_reason ?? (status === "cancelled" ? status : "stop");
  yield { type: "completed", finishReason, lastIndex: next_index - 1, usage, degraded };
}
