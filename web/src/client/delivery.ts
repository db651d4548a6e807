import type { AnswerEvent } from "./api.ts";
import { passesSoon, retryDelayMs } from "./backoff.ts";
import { delay, unlessAborted } from "./delay.ts";
import { online } from "./environment.ts";
import { ConnectionError, RefusedError } from "./errors.ts";
import { cancel } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Session } from "./session.ts";
import { HeldBackError } from "./sse-transport.ts";
import type { Transport, Wish } from "./transport.ts";
import type { Choice, TransportChoice } from "./transport-choice.ts";

/** The events with which there is more of an answer. */
const GROWTHS: readonly string[] = ["delta", "part"];

/** Brings one answer to its end, over as many connections as that takes. */
export class Delivery {
  readonly #inquiry: Inquiry;
  readonly #session: Session;
  readonly #choice: TransportChoice;
  #transport: Transport | undefined;
  /** Failures and refusals in a row, since the text last grew. */
  #failures = 0;
  #refusals = 0;
  #chainCorrected = false;

  constructor(inquiry: Inquiry, session: Session, choice: TransportChoice) {
    this.#inquiry = inquiry;
    this.#session = session;
    this.#choice = choice;
  }

  /** Yields everything that happens; the last is `completed`. Throws the `EvenflowError` that could not be mended. */
  async *run(): AsyncGenerator<AnswerEvent, void, void> {
    try {
      yield* this.#attempts();
    } catch (error) {
      if (!this.#inquiry.stopped.aborted) throw error;
      // Stopped while there was no connection to say so over.
      if (!this.#inquiry.isLeft) cancel(this.#session, this.#inquiry).catch(() => {});
      const { lastIndex } = this.#inquiry.log;
      yield { type: "completed", finishReason: "cancelled", lastIndex, usage: null, degraded: false };
    }
  }

  /** Stops the model; `run` soon yields the end, whether or not the server can be reached. */
  stop(): void {
    this.#inquiry.stop();
    this.#tell("cancel");
  }

  /** Asks for the server to hold delivery, or to go on with it. */
  hold(paused: boolean): void {
    this.#inquiry.paused = paused;
    this.#tell(paused ? "pause" : "continue");
  }

  #tell(wish: Wish): void {
    // Where this fails the connection is lost, which `run` finds out for itself.
    this.#transport?.tell(this.#inquiry, wish).catch(() => {});
  }

  async *#attempts(): AsyncGenerator<AnswerEvent, void, void> {
    for (;;) {
      try {
        this.#transport ??= yield* this.#chooseTransport();
        const better = yield* this.#deliver(this.#transport);
        if (!better) return;
        yield* this.#changeTo(better);
      } catch (error) {
        if (this.#inquiry.stopped.aborted) throw error;
        yield* this.#mend(error);
      }
    }
  }

  async *#chooseTransport(): AsyncGenerator<AnswerEvent, Transport, void> {
    const choosing = this.#session.credentials().then(() => this.#choice.choose());
    const choice = await unlessAborted(this.#inquiry.stopped, choosing);
    yield* this.#changeTo(choice);
    return choice.transport;
  }

  *#changeTo({ transport, fallback }: Choice): Generator<AnswerEvent, void, void> {
    this.#transport = transport;
    this.#failures = 0;
    yield { type: "transport", transport: transport.name, fallback };
  }

  /** Delivers the answer to its end, or until there is a better transport, which is then returned. */
  async *#deliver(transport: Transport): AsyncGenerator<AnswerEvent, Choice | undefined, void> {
    const turns = transport.name === "long-poll" ? ["polled"] : GROWTHS;
    for await (const event of transport.deliver(this.#inquiry)) {
      if (GROWTHS.includes(event.type)) this.#failures = this.#refusals = 0;
      yield event;
      // What ends after a stop is on its way already: to change would be to miss it.
      if (!turns.includes(event.type) || this.#inquiry.stopped.aborted) continue;
      const better = this.#choice.climb(transport.name);
      if (better) return better;
    }
    return undefined;
  }

  async *#mend(error: unknown): AsyncGenerator<AnswerEvent, void, void> {
    if (error instanceof RefusedError) return yield* this.#afterRefusal(error);
    if (error instanceof ConnectionError) return yield* this.#afterLoss(error);
    throw error;
  }

  async *#afterRefusal(error: RefusedError): AsyncGenerator<AnswerEvent, void, void> {
    const { code, expected } = error.body;
    if (code === "causal_violation" && !this.#chainCorrected) {
      this.#chainCorrected = true;
      this.#inquiry.previousMessageId = expected ?? null;
      return;
    }
    this.#refusals += 1;
    if (!error.isTemporary || !passesSoon(error) || this.#refusals > LIMITS.refusals) throw error;
    const delayMs = retryDelayMs(error, this.#refusals);
    yield { type: "waiting", delayMs, code };
    await delay(delayMs, this.#inquiry.stopped);
  }

  async *#afterLoss(error: ConnectionError): AsyncGenerator<AnswerEvent, void, void> {
    this.#failures += 1;
    const { stopped } = this.#inquiry;
    const from = this.#transport?.name ?? "long-poll";
    const most = from === "websocket" ? LIMITS.websocketFailures : LIMITS.sseFailures;
    const isHeldBack = error instanceof HeldBackError;
    const below = isHeldBack || this.#failures >= most ? this.#choice.fallBack(from, isHeldBack) : undefined;
    if (below) return yield* this.#changeTo(below);
    if (!passesSoon(error) || this.#failures > LIMITS.lastFailures) throw error;
    const delayMs = retryDelayMs(error, this.#failures);
    yield { type: "reconnecting", delayMs };
    await delay(delayMs, stopped);
    await online(stopped);
    stopped.throwIfAborted();
  }
}
