import type { AnswerEvent, TransportName } from "./api.ts";
import { ConnectionError } from "./errors.ts";
import type { Inquiry } from "./inquiry.ts";

/** What a reader may want of an answer while it comes. */
export type Wish = "cancel" | "pause" | "continue";

/** HTTP reaches the server, and the transport does not: something on the way blocks it. */
export class BlockedError extends ConnectionError {}

/** One way to move a cursor over a response's log. An answer may change from one to another at any index. */
export interface Transport {
  readonly name: TransportName;
  /** Whether an answer can be delivered without {@link connect}. */
  readonly isOpen: boolean;
  /** Opens it, where that takes a connection. Resolves when it is open; rejects with a `ConnectionError` when it can not be, or not within `patienceMs`. */
  connect?(patienceMs: number): Promise<unknown>;
  /**
   * The same. But if it is not open after `aloneMs`, and HTTP reaches the server, it soon rejects with a
   * {@link BlockedError}.
   */
  connectOrProbe?(aloneMs: number): Promise<unknown>;
  /**
   * Sends the question if the server does not have it yet, and then yields what is missing of its answer, to the end.
   * Throws an `EvenflowError`; after a `ConnectionError` or a temporary `RefusedError` it may be called again.
   */
  deliver(inquiry: Inquiry): AsyncGenerator<AnswerEvent, void, void>;
  /** Tells the server; does nothing where it has no means to, or nothing is there yet. What follows, `deliver` yields. */
  tell(inquiry: Inquiry, wish: Wish): Promise<void>;
  /** Called when the network may have changed: a silent connection is checked, and a hanging try is replaced. */
  doubt(): void;
}
