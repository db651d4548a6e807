import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { delay } from "./delay.ts";
import type { Environment } from "./environment.ts";
import { type ErrorBody, parseErrorBody } from "./error-body.ts";
import { AnswerError } from "./errors.ts";
import { parseEpoch, parseFinishReason, parseStatus, parseUsage } from "./frame-decoder.ts";
import type { FinishReason, ResponseStatus, Usage } from "./frames.ts";
import type { JsonFields } from "./json-fields.ts";
import { LIMITS } from "./limits.ts";
import type { Session } from "./session.ts";
import type { Transport } from "./transport.ts";

/** What one poll was answered with. */
interface Poll {
  readonly newText: string;
  readonly nextIndex: number;
  readonly epoch: number;
  readonly status: ResponseStatus;
  /** Only what is up to this index is kept of what came before; undefined when the text was not restarted. */
  readonly keepUpTo: number | undefined;
  readonly fullText: string | undefined;
  readonly finishReason: FinishReason;
  readonly usage: Usage | null;
  readonly degraded: boolean;
  readonly error: ErrorBody | undefined;
}

/** Plain HTTP, for where a WebSocket cannot be had. The server lets a poll linger, so that an answer costs few of them. */
export class LongPollTransport implements Transport {
  readonly name = "long-poll";
  readonly #session: Session;
  readonly #now: Environment["now"];

  constructor(session: Session, environment: Environment) {
    this.#session = session;
    this.#now = environment.now;
  }

  async *deliver(answer: Answer): AsyncGenerator<AnswerEvent, void, void> {
    const responseId = answer.responseId ?? (yield* this.#submit(answer));
    for (;;) {
      const askedAt = this.#now();
      const from = answer.text.lastIndex + 1;
      const poll = await this.#poll(responseId, from, answer);
      const taken = yield* take(answer, poll);
      yield { type: "polled" };
      if (taken && isFinal(poll.status)) return yield* finish(answer, poll);
      const spare = askedAt + LIMITS.emptyPollMs - this.#now();
      if (poll.nextIndex <= from && spare > 0) await delay(spare, answer.abandoned);
    }
  }

  async cancel(answer: Answer): Promise<void> {
    if (answer.responseId === undefined) return;
    await this.#session.call(`${path(answer.responseId)}/cancel`, { method: "POST", timeoutMs: LIMITS.stopMs });
  }

  async *#submit(answer: Answer): AsyncGenerator<AnswerEvent, string, void> {
    const accepted = await this.#session.call("/chat/message", {
      method: "POST",
      body: {
        message_id: answer.messageId,
        previous_message_id: answer.previousMessageId,
        payload: { text: answer.question },
      },
      timeoutMs: LIMITS.callTimeoutMs,
      signal: answer.abandoned,
    });
    const responseId = accepted.string("response_id");
    answer.responseId = responseId;
    if (answer.stopped.aborted) await this.cancel(answer);
    yield { type: "accepted", responseId, messageId: answer.messageId };
    return responseId;
  }

  async #poll(responseId: string, from: number, answer: Answer): Promise<Poll> {
    const query = `?from_index=${from}&epoch=${answer.text.epoch}&timeout_ms=${LIMITS.pollTimeoutMs}`;
    const fields = await this.#session.call(path(responseId) + query, {
      method: "GET",
      timeoutMs: LIMITS.pollTimeoutMs + LIMITS.callTimeoutMs,
      signal: answer.abandoned,
    });
    return parsePoll(fields);
  }
}

function path(responseId: string): string {
  return `/chat/message/${encodeURIComponent(responseId)}`;
}

function parsePoll(fields: JsonFields): Poll {
  const metadata = fields.object("metadata");
  const status = parseStatus(fields.string("status"));
  const reason = metadata.optionalString("finish_reason");
  const error = metadata.value("error");
  return {
    newText: fields.string("new_text"),
    nextIndex: metadata.index("next_index"),
    epoch: parseEpoch(metadata),
    status,
    keepUpTo: metadata.optionalObject("restarted")?.index("from_index"),
    fullText: fields.optionalString("full_text"),
    finishReason: reason === undefined ? (status === "cancelled" ? "cancelled" : "stop") : parseFinishReason(reason),
    usage: parseUsage(metadata.optionalObject("usage")),
    degraded: metadata.flag("degraded"),
    error: error === undefined || error === null ? undefined : parseErrorBody(error),
  };
}

/** Adds to the answer's text what a poll has brought; false when more than that must be polled again. */
function* take(answer: Answer, poll: Poll): Generator<AnswerEvent, boolean, void> {
  if (poll.keepUpTo !== undefined && poll.keepUpTo < answer.text.lastIndex) {
    const exact = answer.text.keep(poll.keepUpTo);
    yield { type: "restarted", text: answer.text.text };
    // An earlier poll had joined text from both sides of the cut: that much is polled again.
    if (!exact) return false;
  }
  const from = answer.text.lastIndex + 1;
  const index = poll.nextIndex - 1;
  const outcome = answer.text.append(from, index, poll.newText);
  answer.text.confirm(poll.epoch);
  if (outcome.kind === "appended" && outcome.text !== "") yield { type: "text", text: outcome.text, from, index };
  return true;
}

function isFinal(status: ResponseStatus): boolean {
  return status === "completed" || status === "error" || status === "cancelled";
}

/** The end of an answer: the server's whole text is the truth, should what was put together here differ from it. */
function* finish(answer: Answer, poll: Poll): Generator<AnswerEvent, void, void> {
  const lastIndex = poll.nextIndex - 1;
  if (poll.fullText !== undefined && poll.fullText !== answer.text.text) {
    answer.text.replace(lastIndex, poll.fullText);
    yield { type: "restarted", text: poll.fullText };
  }
  if (poll.error !== undefined) throw new AnswerError(poll.error);
  const { finishReason, usage, degraded } = poll;
  yield { type: "completed", finishReason, lastIndex, usage, degraded };
}
