import type { Answer } from "./answer.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { retryDelayMs } from "./backoff.ts";
import { delay } from "./delay.ts";
import type { Environment } from "./environment.ts";
import { ConnectionError, RefusedError } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { Transport } from "./transport.ts";
import type { Choice, TransportChoice } from "./transport-choice.ts";

/** Brings one answer to its end, over as many connections as that takes. */
export class Delivery {
  readonly #answer: Answer;
  readonly #choice: TransportChoice;
  readonly #random: Environment["random"];
  #transport: Transport | undefined;
  /** Failures and refusals in a row, since the text last grew. */
  #failures = 0;
  #refusals = 0;
  #chainCorrected = false;

  constructor(answer: Answer, choice: TransportChoice, random: Environment["random"]) {
    this.#answer = answer;
    this.#choice = choice;
    this.#random = random;
  }

  /** Yields everything that happens; the last is `completed`. Throws the `EvenflowError` that could not be mended. */
  async *run(): AsyncGenerator<AnswerEvent, void, void> {
    try {
      yield* this.#attempts();
    } catch (error) {
      if (!this.#answer.stopped.aborted) throw error;
      // Stopped while there was no connection to say so over.
      this.#choice.polling.cancel(this.#answer).catch(() => {});
      yield this.#answer.cancelledEvent();
    }
  }

  /** Stops the model; `run` soon yields the end, whether or not the server can be reached. */
  stop(): void {
    this.#answer.stop();
    // Where this fails the connection is lost, which `run` finds out for itself.
    this.#transport?.cancel(this.#answer).catch(() => {});
  }

  async *#attempts(): AsyncGenerator<AnswerEvent, void, void> {
    for (;;) {
      try {
        this.#transport ??= yield* this.#chooseTransport();
        const better = yield* this.#deliver(this.#transport);
        if (better === undefined) return;
        yield* this.#changeTo(better);
      } catch (error) {
        if (this.#answer.stopped.aborted) throw error;
        yield* this.#mend(error);
      }
    }
  }

  async *#chooseTransport(): AsyncGenerator<AnswerEvent, Transport, void> {
    const choice = await this.#choice.choose();
    this.#answer.stopped.throwIfAborted();
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
    for await (const event of transport.deliver(this.#answer)) {
      if (event.type === "text") this.#failures = this.#refusals = 0;
      yield event;
      const better = event.type === "polled" ? this.#choice.climb() : undefined;
      if (better !== undefined) return better;
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
    if (code === "causal_violation" && expected !== undefined && !this.#chainCorrected) {
      this.#chainCorrected = true;
      this.#answer.previousMessageId = expected;
      return;
    }
    this.#refusals += 1;
    if (!error.isTemporary || this.#refusals > LIMITS.refusals) throw error;
    const delayMs = retryDelayMs(error, this.#refusals, this.#random);
    yield { type: "waiting", delayMs };
    await delay(delayMs, this.#answer.stopped);
  }

  async *#afterLoss(error: ConnectionError): AsyncGenerator<AnswerEvent, void, void> {
    this.#failures += 1;
    if (this.#transport?.name === "websocket" && this.#failures >= LIMITS.websocketFailures) {
      return yield* this.#changeTo(this.#choice.fallBack());
    }
    if (this.#failures > LIMITS.pollFailures) throw error;
    const delayMs = retryDelayMs(error, this.#failures, this.#random);
    yield { type: "reconnecting", delayMs };
    await delay(delayMs, this.#answer.stopped);
  }
}
