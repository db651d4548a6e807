import type { AnswerParams, ClientStorage, Draft, TransportName } from "./api.ts";
import type { Credentials } from "./session.ts";

/** A question that was asked, as much of it as its answer can be had again by. */
export interface Asked {
  readonly messageId: string;
  readonly previousMessageId: string | null;
  readonly payload: Payload;
  readonly replaces?: string | undefined;
  readonly parent?: string | undefined;
  readonly responseId?: string | undefined;
}

/** The question, and the {@link AskOptions}, as they go over the wire. */
export interface Payload {
  readonly text: string;
  readonly params?: AnswerParams | undefined;
  readonly timeout_ms?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** What outlives a reload. */
export interface Kept {
  readonly credentials?: Credentials | undefined;
  readonly lastMessageId?: string | null;
  /** What worked last. */
  readonly transport?: TransportName;
  /** The question whose answer has not ended. Its text is not kept: the server has it, and it is read from there. */
  readonly asked?: Asked | undefined;
  readonly draft?: Draft | null;
}

/** What a client knows that its successor on the same page should know too. Storage that fails is done without. */
export class Memory {
  readonly #storage: ClientStorage | null;
  readonly #key: string;
  #kept: Kept = {};

  /** Reads what is in `storage` under `key`, if anything. */
  constructor(storage: ClientStorage | null, key: string) {
    this.#storage = storage;
    this.#key = key;
    try {
      this.#kept = { ...JSON.parse(storage?.getItem(key) ?? "{}") };
    } catch {
      // Not ours, or not allowed: a new session.
    }
  }

  get kept(): Kept {
    return this.#kept;
  }

  keep(change: Kept): void {
    this.#kept = { ...this.#kept, ...change };
    try {
      this.#storage?.setItem(this.#key, JSON.stringify(this.#kept));
    } catch {
      // Full, or not allowed.
    }
  }
}
