import type { Answer, AnswerEvent, AnswerListeners, AnswerPart, AnswerResult, AnswerState } from "./api.ts";
import { Emitter } from "./emitter.ts";
import type { EvenflowError } from "./errors.ts";
import type { Asked } from "./memory.ts";
import { after } from "./parts.ts";

const STOPPED = ["cancelled", "abandoned"];

/** Where an answer comes from. */
export interface Source {
  run(): AsyncIterable<AnswerEvent>;
  stop(): void;
  hold(paused: boolean): void;
}

/** An answer as the application sees it: a log of what has happened, over which every iteration is a cursor. */
export class LiveAnswer implements Answer {
  readonly messageId: string;
  readonly question: string;
  readonly #source: Source;
  readonly #emitter = new Emitter<AnswerListeners>();
  /** What has happened; of which `#told` events were told, and the others are held while the answer is paused. */
  readonly #log: AnswerEvent[] = [];
  #told = 0;
  #isPaused = false;
  #hasBegun = false;
  #state: AnswerState = "asking";
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void)[] = [];
  readonly #done: Promise<AnswerResult>;
  #settle: { resolve(result: AnswerResult): void; reject(error: unknown): void } | undefined;
  responseId: string | null;
  text = "";
  parts: readonly AnswerPart[] = [];

  constructor({ messageId, payload, responseId }: Asked, source: Source) {
    this.messageId = messageId;
    this.question = payload.text;
    this.responseId = responseId ?? null;
    this.#source = source;
    this.#done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Who does not await the end does not want to hear of it.
    this.#done.catch(() => {});
  }

  get state(): AnswerState {
    return this.#isPaused ? "paused" : this.#state;
  }

  /** Whether nothing more will be told. */
  get isOver(): boolean {
    return !this.#settle;
  }

  get done(): Promise<AnswerResult> {
    this.begin();
    return this.#done;
  }

  on<E extends keyof AnswerListeners>(event: E, listener: (detail: AnswerListeners[E]) => void): () => void {
    this.begin();
    return this.#emitter.on(event, listener);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerEvent, void, void> {
    this.begin();
    for (let next = 0; ; ) {
      if (next < this.#told) yield this.#log[next++] as AnswerEvent;
      else if (this.isOver) return void (await this.#done);
      else await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  async stop(): Promise<void> {
    if (this.isOver) return;
    this.begin();
    this.resume();
    this.#source.stop();
    await this.#done.catch(() => {});
  }

  pause(): void {
    this.#hold(true);
  }

  resume(): void {
    this.#hold(false);
    this.#tell();
  }

  /** Begins the delivery, which then goes on by itself. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    void this.#deliver();
  }

  /** Ends the answer, whatever is held. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.#isPaused = false;
    this.#settle?.reject(error);
    this.#settle = undefined;
    this.#enter("failed");
    this.#emitter.emit("error", error as EvenflowError);
    this.#wakeAll();
  }

  async #deliver(): Promise<void> {
    try {
      for await (const event of this.#source.run()) {
        this.#log.push(event);
        this.#tell();
      }
    } catch (error) {
      this.#failure = { error };
      this.#tell();
    }
  }

  #hold(isPaused: boolean): void {
    if (this.isOver || this.#isPaused === isPaused) return;
    this.#isPaused = isPaused;
    this.#source.hold(isPaused);
    this.#emitter.emit("state", this.state);
  }

  /** Tells what was not told yet, as far as no listener pauses. */
  #tell(): void {
    while (!this.#isPaused && !this.isOver) {
      const event = this.#log[this.#told];
      if (!event) {
        if (this.#failure) this.fail(this.#failure.error);
        break;
      }
      this.#told += 1;
      this.#take(event);
      this.#emitter.emit(event.type, event as never);
    }
    this.#wakeAll();
  }

  #take(event: AnswerEvent): void {
    if (event.type === "accepted") this.responseId = event.responseId;
    if (event.type === "restarted") this.text = this.text.slice(0, event.keep);
    if (event.type === "delta") this.text += event.text;
    if (event.type === "delta" || event.type === "part") this.#enter("streaming");
    this.parts = after(this.parts, event);
    if (event.type !== "completed") return;
    const { type: _, ...end } = event;
    this.#settle?.resolve({ ...end, text: this.text, parts: this.parts });
    this.#settle = undefined;
    this.#enter(STOPPED.includes(event.finishReason) ? "stopped" : "completed");
  }

  #enter(state: AnswerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#emitter.emit("state", state);
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
