import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { AnswerError, ProtocolError, RefusedError } from "./errors.ts";
import type {
  ClientFrame,
  CompletedFrame,
  DeltaFrame,
  ErrorFrame,
  ResponseErrorFrame,
  RestartedFrame,
  StartFrame,
} from "./frames.ts";
import { LIMITS } from "./limits.ts";
import type { Arrival } from "./websocket-connection.ts";

/** The reading of one answer over one WebSocket connection: what each frame means for it, and what is sent in reply. */
export class AnswerReading {
  readonly #answer: Answer;
  readonly #send: (frame: ClientFrame) => void;
  #ended = false;
  #acknowledged: number;
  /** A resume was asked for; until its start, what does not join on is no further gap. */
  #resuming = false;
  #recoveries = 0;

  constructor(answer: Answer, send: (frame: ClientFrame) => void) {
    this.#answer = answer;
    this.#send = send;
    this.#acknowledged = answer.text.lastIndex;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Asks for the answer: sends the question, or resumes where the text that is held ends. Safe to repeat. */
  request(): void {
    const { responseId, messageId, previousMessageId, question, text } = this.#answer;
    if (responseId !== undefined) {
      this.#resuming = true;
      this.#send({ type: "response.resume", response_id: responseId, after: text.lastIndex });
      return;
    }
    this.#send({
      type: "chat.message",
      message_id: messageId,
      previous_message_id: previousMessageId,
      payload: { text: question },
    });
  }

  /** Tells the server what the reader really has, if that is more than it was told before. */
  acknowledge(): void {
    const { responseId, text } = this.#answer;
    if (responseId === undefined || text.lastIndex <= this.#acknowledged) return;
    this.#acknowledged = text.lastIndex;
    this.#send({ type: "response.ack", response_id: responseId, index: text.lastIndex });
  }

  /** Asks for the model to stop, where there is a response to stop. */
  cancel(): void {
    const { responseId } = this.#answer;
    if (responseId !== undefined) this.#send({ type: "response.cancel", response_id: responseId });
  }

  /** Takes one frame. Throws the `EvenflowError` that it stands for, if it does. */
  *receive(arrival: Arrival): Generator<AnswerEvent, void, void> {
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
      case "throttle":
      case "system.busy":
        if (this.#isQuestion(arrival.message_id)) throw new RefusedError(arrival.error);
        return;
      case "error":
        if (this.#isRefused(arrival)) throw new RefusedError(arrival.error);
        return;
      case "session.ready":
      case "reconnect":
        return;
    }
  }

  #concerns(responseId: string | null): boolean {
    return responseId !== null && responseId === this.#answer.responseId;
  }

  #isRefused(frame: ErrorFrame): boolean {
    return frame.response_id === null ? this.#isQuestion(frame.message_id) : this.#concerns(frame.response_id);
  }

  /** Whether a refusal of this message is one of the question; one that names none is about what was sent last. */
  #isQuestion(messageId: string | null): boolean {
    const { responseId, messageId: question } = this.#answer;
    return responseId === undefined && (messageId ?? question) === question;
  }

  *#start(frame: StartFrame): Generator<AnswerEvent, void, void> {
    if (frame.message_id !== this.#answer.messageId) return;
    this.#resuming = false;
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
    const outcome = this.#answer.text.append(frame.from, frame.index, frame.delta);
    if (outcome.kind === "gap") return this.#recover();
    if (outcome.kind !== "appended") return;
    this.#recoveries = 0;
    this.#resuming = false;
    yield { type: "text", text: outcome.text, from: frame.from, index: frame.index };
  }

  *#restarted(frame: RestartedFrame): Generator<AnswerEvent, void, void> {
    if (!this.#concerns(frame.response_id)) return;
    const outcome = this.#answer.text.restart(frame.index, frame.from_index);
    if (outcome.kind === "restarted") yield { type: "restarted", text: outcome.text };
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
