import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { AnswerError, ProtocolError, RefusedError } from "./errors.ts";
import type {
  CompletedFrame,
  DeltaFrame,
  ErrorFrame,
  RefusalFrame,
  ResponseErrorFrame,
  RestartedFrame,
  StartFrame,
} from "./frames.ts";
import { LIMITS } from "./limits.ts";
import type { Arrival, WebSocketConnection } from "./websocket-connection.ts";

/** The reading of one answer over one WebSocket connection: what each frame means for it, and what is sent in reply. */
export class AnswerReading {
  readonly #answer: Answer;
  readonly #connection: WebSocketConnection;
  #ended = false;
  /** The last index that came over this connection, and the last one that the server was told of. */
  #delivered: number;
  #acknowledged: number;
  /** A resume was asked for; until its start, what does not join on is no further gap. */
  #resuming = false;
  #recoveries = 0;

  constructor(answer: Answer, connection: WebSocketConnection) {
    this.#answer = answer;
    this.#connection = connection;
    this.#delivered = this.#acknowledged = answer.text.lastIndex;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Asks for the answer: sends the question, or resumes where the text that is held ends. Safe to repeat. */
  request(): void {
    const { responseId, messageId, previousMessageId, question, text } = this.#answer;
    if (responseId !== undefined) {
      this.#resuming = true;
      const { lastIndex: after, epoch } = text;
      this.#connection.send({ type: "response.resume", response_id: responseId, after, epoch });
      return;
    }
    this.#connection.send({
      type: "chat.message",
      message_id: messageId,
      previous_message_id: previousMessageId,
      payload: { text: question },
    });
  }

  /** Tells the server what the reader really has, if that is more than it was told before. */
  acknowledge(): void {
    const { responseId } = this.#answer;
    if (responseId === undefined || this.#delivered <= this.#acknowledged || !this.#connection.isOpen) return;
    this.#acknowledged = this.#delivered;
    this.#connection.send({ type: "response.ack", response_id: responseId, index: this.#delivered });
  }

  /** Asks for the model to stop, where there is a response to stop. */
  cancel(): void {
    const { responseId } = this.#answer;
    if (responseId !== undefined) this.#connection.send({ type: "response.cancel", response_id: responseId });
  }

  /** Whether with this frame the server begins to deliver the answer. */
  isBegunBy(arrival: Arrival): boolean {
    if (arrival.type === "chat.response.start") return arrival.message_id === this.#answer.messageId;
    return arrival.type === "chat.response.restarted" && this.#concerns(arrival.response_id);
  }

  /** The refusal of what was asked for, if the frame is that. */
  refusal(arrival: Arrival): RefusedError | undefined {
    switch (arrival.type) {
      case "throttle":
      case "system.busy":
        return this.#isBusy(arrival) ? new RefusedError(arrival.error) : undefined;
      case "error":
        return this.#isRefused(arrival) ? new RefusedError(arrival.error) : undefined;
      default:
        return undefined;
    }
  }

  /** Takes one frame. Throws the `EvenflowError` that it stands for, if it does. */
  *receive(arrival: Arrival): Generator<AnswerEvent, void, void> {
    const refusal = this.refusal(arrival);
    if (refusal !== undefined) throw refusal;
    switch (arrival.type) {
      case "garbled":
        return this.#recover();
      case "chat.response.start":
        return yield* this.#start(arrival);
      case "chat.response.delta":
        return yield* this.#delta(arrival);
      case "chat.response.restarted":
        return yield* this.#restarted(arrival);
      case "chat.response.completed":
      case "chat.response.error":
        return yield* this.#end(arrival);
      case "lag":
        if (!this.#concerns(arrival.response_id)) return;
        return yield { type: "lag", behindDeltas: arrival.behind_deltas, behindMs: arrival.behind_ms };
    }
  }

  #concerns(responseId: string | null): boolean {
    return responseId !== null && responseId === this.#answer.responseId;
  }

  #isBusy({ message_id: messageId }: RefusalFrame): boolean {
    return this.#isQuestion(messageId) || (messageId === null && this.#resuming);
  }

  #isRefused({ message_id: messageId, response_id: responseId, error }: ErrorFrame): boolean {
    if (responseId === null) return this.#isQuestion(messageId);
    // `index` is the field of an acknowledgement: one that has crossed a restart does no harm.
    return this.#concerns(responseId) && error.param !== "index";
  }

  /** Whether a refusal of this message is one of the question; one that names none is about what was sent last. */
  #isQuestion(messageId: string | null): boolean {
    const { responseId, messageId: question } = this.#answer;
    return responseId === undefined && (messageId ?? question) === question;
  }

  *#start(frame: StartFrame): Generator<AnswerEvent, void, void> {
    if (frame.message_id !== this.#answer.messageId) return;
    this.#resuming = false;
    const { text } = this.#answer;
    // Else the server is about to say what becomes of the text that it does not go on from.
    if (frame.next_index > text.lastIndex) text.confirm(frame.epoch);
    if (this.#answer.responseId === undefined) {
      this.#answer.responseId = frame.response_id;
      if (this.#answer.stopped.aborted) this.cancel();
      yield { type: "accepted", responseId: frame.response_id, messageId: frame.message_id };
    } else {
      yield { type: "resumed" };
    }
  }

  *#delta(frame: DeltaFrame): Generator<AnswerEvent, void, void> {
    if (!this.#concerns(frame.response_id)) return;
    const from = this.#answer.text.lastIndex + 1;
    const outcome = this.#answer.text.append(frame.from, frame.index, frame.delta);
    if (outcome.kind === "gap") return this.#recover();
    if (outcome.kind !== "appended") return;
    this.#recoveries = 0;
    this.#resuming = false;
    this.#delivered = frame.index;
    yield { type: "text", text: outcome.text, from, index: frame.index };
  }

  *#restarted(frame: RestartedFrame): Generator<AnswerEvent, void, void> {
    if (!this.#concerns(frame.response_id)) return;
    const { text } = this.#answer;
    const { length } = text.text;
    const outcome = text.restart(frame);
    if (outcome.kind === "restarted") {
      this.#delivered = text.lastIndex;
      this.#acknowledged = Math.min(this.#acknowledged, text.lastIndex);
      // Where a new owner goes on from the text that is held, there is nothing to see.
      if (text.text.length < length) yield { type: "restarted", text: text.text };
    }
    if (outcome.kind === "gap" || (outcome.kind === "restarted" && !outcome.complete)) this.#recover();
  }

  *#end(frame: CompletedFrame | ResponseErrorFrame): Generator<AnswerEvent, void, void> {
    if (!this.#concerns(frame.response_id)) return;
    if (frame.last_index > this.#answer.text.lastIndex) return this.#recover();
    this.#ended = true;
    if (frame.type === "chat.response.error") throw new AnswerError(frame.error);
    const { finish_reason: finishReason, last_index: lastIndex, usage, degraded } = frame;
    yield { type: "completed", finishReason, lastIndex, usage, degraded };
  }

  /** Something was lost on the way: asks for it again, from what is held. */
  #recover(): void {
    if (this.#resuming) return;
    this.#recoveries += 1;
    if (this.#recoveries > LIMITS.recoveries) throw new ProtocolError("the server does not send what is missing");
    this.request();
  }
}
