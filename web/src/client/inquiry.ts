import type { DroppedHistory, Message } from "./frames.ts";
import * as LIMITS from "./limits.ts";
import type { Asked, Payload } from "./memory.ts";
import { ResponseLog } from "./response-log.ts";

/** One question and what has come of it so far: all that a transport needs to carry on where another left off. */
export class Inquiry {
  readonly messageId: string;
  readonly payload: Payload;
  previousMessageId: string | null;
  /** See `AskOptions`. */
  readonly replaces: string | undefined;
  readonly parent: string | undefined;
  /** Known once the server has accepted the question. */
  responseId: string | undefined;
  /** The number of the conversation's oldest messages that the model does not receive, if known. */
  historyDropped = 0;
  readonly log = new ResponseLog();
  /** The reader wants nothing for now. */
  paused = false;
  isLeft = false;
  /** A stream of its events has begun. */
  wasRead = false;
  readonly #stop = new AbortController();
  readonly #abandon = new AbortController();

  constructor({ messageId, previousMessageId, payload, replaces, parent, responseId }: Asked) {
    this.messageId = messageId;
    this.previousMessageId = previousMessageId;
    this.payload = payload;
    this.replaces = replaces;
    this.parent = parent;
    this.responseId = responseId;
  }

  /** The question as it goes to the server, whatever the way. */
  get wording(): Message {
    return {
      message_id: this.messageId,
      previous_message_id: this.previousMessageId,
      replaces: this.replaces,
      parent_message_id: this.parent,
      payload: this.payload,
    };
  }

  /** The dropped history, if it has grown since the last time. */
  dropped({ history_dropped: historyDropped, history_dropped_by: by }: DroppedHistory) {
    if (historyDropped <= this.historyDropped) return undefined;
    this.historyDropped = historyDropped;
    return { historyDropped, ...(by && { historyDroppedBy: by }) };
  }

  /** Aborted when the reader wants no more: whatever only waits ends at once. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted when the server has not confirmed a stop in time, or the client is closed: nobody waits for it. */
  get abandoned(): AbortSignal {
    return this.#abandon.signal;
  }

  stop(): void {
    if (this.stopped.aborted) return;
    this.#stop.abort();
    setTimeout(() => this.#abandon.abort(), LIMITS.stopMs);
  }

  /** The reader leaves, and the model goes on. */
  abandon(): void {
    this.isLeft = true;
    this.#stop.abort();
    this.#abandon.abort();
  }
}
