import type { AnswerEvent } from "./api.ts";
import { type Content, textContent } from "./content.ts";
import { AnswerError, ProtocolError, RefusedError } from "./errors.ts";
import type { ClientFrame, FrameOf } from "./frames.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Arrival } from "./read-frame.ts";
import type { Wish } from "./transport.ts";

/** Which indexes something stands for. */
type Place = Pick<FrameOf<"chat.response.delta">, "from" | "index">;

/** The way back to the server, as far as the connection has one. */
export interface Sender {
  readonly isOpen: boolean;
  send(frame: ClientFrame): void;
}

/** The reading of one answer over one connection: what each frame means for it, and what is sent in reply. */
export class AnswerReading {
  readonly #inquiry: Inquiry;
  readonly #sender: Sender;
  #ended = false;
  /** The last index that came over this connection, and the last one that the server was told of. */
  #delivered: number;
  #acknowledged: number;
  /** A resume was asked for; until its start, what does not join on is no further gap. */
  #resuming = false;
  #recoveries = 0;

  constructor(inquiry: Inquiry, sender: Sender) {
    this.#inquiry = inquiry;
    this.#sender = sender;
    this.#delivered = this.#acknowledged = inquiry.log.lastIndex;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Asks for the answer: sends the question, or resumes where what is held ends. Safe to repeat. */
  request(): void {
    const { responseId, wording, log } = this.#inquiry;
    if (responseId) {
      this.#resuming = true;
      const { lastIndex: after, epoch } = log;
      this.#sender.send({ type: "response.resume", response_id: responseId, after, epoch });
      return;
    }
    this.#sender.send({ type: "chat.message", ...wording });
  }

  /** Tells the server what the reader really has, if that is more than it was told before. */
  acknowledge(): void {
    const { responseId, paused } = this.#inquiry;
    if (!responseId || paused || this.#delivered <= this.#acknowledged || !this.#sender.isOpen) return;
    this.#acknowledged = this.#delivered;
    this.#sender.send({ type: "response.ack", response_id: responseId, index: this.#delivered });
  }

  /** Sends the reader's wish for the response, if there is a response and an open connection. */
  tell(wish: Wish): void {
    const { responseId } = this.#inquiry;
    if (responseId && this.#sender.isOpen) this.#sender.send({ type: `response.${wish}`, response_id: responseId });
  }

  /** Whether with this frame the server begins to deliver the answer. */
  isBegunBy(arrival: Arrival): boolean {
    if (arrival.type === "chat.response.start") return arrival.message_id === this.#inquiry.messageId;
    return arrival.type === "chat.response.restarted" && this.#concerns(arrival);
  }

  /** The refusal of what was asked for, if the frame is that. */
  refusal(arrival: Arrival): RefusedError | undefined {
    switch (arrival.type) {
      case "throttle":
      case "system.busy": {
        const { message_id: messageId, retry_after_ms, error } = arrival;
        const isOurs = this.#isQuestion(messageId) || (messageId === null && this.#resuming);
        return isOurs ? new RefusedError({ ...error, retry_after_ms }) : undefined;
      }
      case "error": {
        const { message_id: messageId, response_id: responseId, error } = arrival;
        // `index` is the field of an acknowledgement: one that has crossed a restart does no harm.
        const isResponse = this.#concerns(arrival) && error.param !== "index";
        const isOurs = responseId === null ? this.#isQuestion(messageId) : isResponse;
        return isOurs ? new RefusedError(error) : undefined;
      }
      default:
        return undefined;
    }
  }

  /** Takes one frame. Throws the `EvenflowError` that it stands for, if it does. */
  *receive(arrival: Arrival): Generator<AnswerEvent, void, void> {
    const refusal = this.refusal(arrival);
    if (refusal) throw refusal;
    if (arrival.type === "garbled") return this.#recover();
    if (arrival.type === "chat.response.start") return yield* this.#start(arrival);
    if (!this.#concerns(arrival)) return;
    const { log } = this.#inquiry;
    switch (arrival.type) {
      case "chat.response.delta":
        return yield* this.#grow(arrival, textContent(arrival.delta));
      case "chat.response.event": {
        const { from, index, response_id: _, type: __, ...content } = arrival;
        return yield* this.#grow(arrival, content);
      }
      case "chat.response.restarted":
        return yield* this.#restarted(arrival);
      case "chat.response.completed":
      case "chat.response.error": {
        if (arrival.last_index > log.lastIndex) return this.#recover();
        this.#ended = true;
        if (arrival.type === "chat.response.error") throw new AnswerError(arrival.error);
        const { finish_reason: finishReason, last_index: lastIndex, usage, degraded } = arrival;
        return yield { type: "completed", finishReason, lastIndex, usage, degraded };
      }
      case "chat.response.queued":
        return yield { type: "queued", position: arrival.position, expectedSeconds: arrival.expected_seconds };
      case "lag":
        return yield { type: "lag", behindDeltas: arrival.behind_deltas, behindMs: arrival.behind_ms };
    }
  }

  #concerns(arrival: Arrival): boolean {
    return "response_id" in arrival && arrival.response_id !== null && arrival.response_id === this.#inquiry.responseId;
  }

  /** Whether a refusal of this message is one of the question; one that names none is about what was sent last. */
  #isQuestion(messageId: string | null): boolean {
    const { responseId, messageId: question } = this.#inquiry;
    return !responseId && (messageId ?? question) === question;
  }

  *#start(frame: FrameOf<"chat.response.start">): Generator<AnswerEvent, void, void> {
    const { log, messageId, responseId } = this.#inquiry;
    if (frame.message_id !== messageId) return;
    this.#resuming = false;
    // Else the server is about to say what becomes of what it does not go on from.
    if (frame.next_index > log.lastIndex) log.confirm(frame.epoch);
    this.#inquiry.responseId = frame.response_id;
    // The server delivers to a new reader until it receives a pause.
    if (this.#inquiry.paused) this.tell("pause");
    if (!responseId && this.#inquiry.stopped.aborted) this.tell("cancel");
    // This frame comes again if the model has rejected the conversation as too long.
    const dropped = this.#inquiry.dropped(frame);
    if (!responseId || dropped) yield { type: "accepted", responseId: frame.response_id, messageId, ...dropped };
    if (responseId) yield { type: "resumed" };
  }

  *#grow({ from, index }: Place, content: Content): Generator<AnswerEvent, void, void> {
    const outcome = this.#inquiry.log.append(from ?? index, index, content);
    if (outcome.kind === "gap") return this.#recover();
    if (outcome.kind !== "appended") return;
    this.#recoveries = 0;
    this.#resuming = false;
    this.#delivered = index;
    if (outcome.growth) yield outcome.growth;
  }

  *#restarted(frame: FrameOf<"chat.response.restarted">): Generator<AnswerEvent, void, void> {
    const { log } = this.#inquiry;
    const { parts } = log;
    const outcome = log.restart(frame);
    if (outcome.kind === "restarted") {
      this.#delivered = log.lastIndex;
      this.#acknowledged = Math.min(this.#acknowledged, log.lastIndex);
      // Where a new owner goes on from what is held, there is nothing to see.
      if (log.parts !== parts) yield { type: "restarted", keep: log.text.length, parts: log.parts };
    }
    if (outcome.kind === "gap" || (outcome.kind === "restarted" && !outcome.complete)) this.#recover();
  }

  /** Something was lost on the way: asks for it again, from what is held. */
  #recover(): void {
    if (this.#resuming) return;
    this.#recoveries += 1;
    if (this.#recoveries > LIMITS.recoveries) throw new ProtocolError("a part is missing");
    this.request();
  }
}
