import type { AnswerEvent } from "./answer-events.ts";
import { LIMITS } from "./limits.ts";
import { ResponseText } from "./response-text.ts";

/** One question and what has come of it so far: all that a transport needs to carry on where another left off. */
export class Answer {
  readonly messageId: string;
  readonly question: string;
  previousMessageId: string | null;
  /** Known once the server has accepted the question. */
  responseId: string | undefined;
  readonly text = new ResponseText();
  readonly #stop = new AbortController();
  readonly #abandon = new AbortController();

  constructor(messageId: string, previousMessageId: string | null, question: string) {
    this.messageId = messageId;
    this.previousMessageId = previousMessageId;
    this.question = question;
  }

  /** Aborted when the reader wants no more: whatever only waits ends at once. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted when the server has not confirmed a stop in time: the reader is not kept waiting for it. */
  get abandoned(): AbortSignal {
    return this.#abandon.signal;
  }

  stop(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    setTimeout(() => this.#abandon.abort(), LIMITS.stopMs);
  }

  /** The event for an answer that ended because the reader stopped it. */
  cancelledEvent(): AnswerEvent {
    return {
      type: "completed",
      finishReason: "cancelled",
      lastIndex: this.text.lastIndex,
      usage: null,
      degraded: false,
    };
  }
}
