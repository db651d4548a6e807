import type { Answer } from "./answer.ts";
import type { AnswerEvent, TransportName } from "./answer-events.ts";

/** One way to move a cursor over a response's log. An answer may change from one to another at any index. */
export interface Transport {
  readonly name: TransportName;
  /**
   * Sends the question if the server does not have it yet, and then yields what is missing of its answer, to the end.
   * Throws an `EvenflowError`; after a `ConnectionError` or a temporary `RefusedError` it may be called again.
   */
  deliver(answer: Answer): AsyncGenerator<AnswerEvent, void, void>;
  /** Asks the server to stop the model; `deliver` then yields the end. Does nothing where there is nothing to stop yet. */
  cancel(answer: Answer): Promise<void>;
}
