import type { AnswerEvent } from "./api.ts";
import { passesSoon, probeDelayMs, retryDelayMs, saidMs } from "./backoff.ts";
import { delay, unlessAborted } from "./delay.ts";
import { ConnectionError, RefusedError } from "./errors.ts";
import { cancel } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Session } from "./session.ts";
import { HeldBackError } from "./sse-delivery.ts";
import { BlockedError, type Transport, type Wish } from "./transport.ts";
import type { Choice, TransportChoice } from "./transport-choice.ts";
import type { WakeUps } from "./wake-up.ts";

/** The events with which there is more of an answer. */
const GROWTHS: readonly string[] = ["delta", "part"];

/**
 * Brings one answer to its end, over as many connections as that takes. A lost connection never ends it: the client
 * tries for as long as the page lives. Only a permanent refusal of the server ends it.
 */
export class Delivery {
  readonly #inquiry: Inquiry;
  readonly #session: Session;
  readonly #choice: TransportChoice;
  readonly #wakeUps: WakeUps;
  readonly #closed: AbortSignal;
  #transport: Transport | undefined;
  /** Failures and refusals in a row since the text last grew; and failures in a row of a blocked transport. */
  #failures = 0;
  #refusals = 0;
  #blocked = 0;
  /** When the first of those failures was, or the last wake-up after it. */
  #lostAt = 0;
  /** The start of the try that has brought nothing yet. */
  #triedAt: number | undefined;
  /** Whether a wake-up came during that try. */
  #isWoken = false;
  #chainCorrected = false;

  /** `closed` is aborted when the client is closed: then nothing is tried any more. */
  constructor(inquiry: Inquiry, session: Session, choice: TransportChoice, wakeUps: WakeUps, closed: AbortSignal) {
    this.#closed = closed;
    this.#inquiry = inquiry;
    this.#session = session;
    this.#choice = choice;
    this.#wakeUps = wakeUps;
  }

  /** Yields everything that happens; the last is `completed`. Throws the `EvenflowError` that could not be mended. */
  async *run(): AsyncGenerator<AnswerEvent, void, void> {
    const endWakeUps = this.#wakeUps.on(() => this.#wakeUp());
    try {
      yield* this.#attempts();
    } catch (error) {
      if (!this.#inquiry.stopped.aborted) throw error;
      // Stopped while there was no connection to say so over.
      if (!this.#inquiry.isLeft) this.#cancelLater().catch(() => {});
      const { lastIndex } = this.#inquiry.log;
      yield { type: "completed", finishReason: "cancelled", lastIndex, usage: null, degraded: false };
    } finally {
      endWakeUps();
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

  /** Stops the model once the server can be reached, however late: otherwise it would go on to its end. */
  async #cancelLater(): Promise<void> {
    const stoppedAt = Date.now();
    for (let failures = 1; ; failures++) {
      try {
        return await cancel(this.#session, this.#inquiry);
      } catch (error) {
        if (!(error instanceof ConnectionError)) return;
      }
      await this.#wakeUps.pause(probeDelayMs(failures, Date.now() - stoppedAt), this.#closed);
    }
  }

  #wakeUp(): void {
    this.#isWoken = true;
    this.#lostAt = Date.now();
    this.#choice.doubt();
  }

  async *#attempts(): AsyncGenerator<AnswerEvent, void, void> {
    for (;;) {
      try {
        this.#triedAt = Date.now();
        this.#isWoken = false;
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
    this.#failures = this.#blocked = 0;
    yield { type: "transport", transport: transport.name, fallback };
  }

  /** Delivers the answer to its end, or until there is a better transport, which is then returned. */
  async *#deliver(transport: Transport): AsyncGenerator<AnswerEvent, Choice | undefined, void> {
    const turns = transport.name === "long-poll" ? ["polled"] : GROWTHS;
    for await (const event of transport.deliver(this.#inquiry)) {
      this.#triedAt = undefined;
      this.#isWoken = false;
      if (GROWTHS.includes(event.type)) {
        this.#failures = this.#refusals = this.#blocked = 0;
        this.#choice.carried(transport);
      }
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
    if (!this.#mayPass(error)) throw error;
    const delayMs = retryDelayMs(error, this.#refusals);
    yield { type: "waiting", delayMs, code };
    await delay(delayMs, this.#inquiry.stopped);
  }

  /** Whether a refusal may be temporary. An accepted answer exists, and is only requested again. */
  #mayPass(error: RefusedError): boolean {
    if (this.#inquiry.responseId) return error.isTemporary || error.body.type === "internal_error";
    return error.isTemporary && passesSoon(error) && this.#refusals <= LIMITS.refusals;
  }

  async *#afterLoss(error: ConnectionError): AsyncGenerator<AnswerEvent, void, void> {
    this.#failures += 1;
    if (this.#failures === 1) this.#lostAt = Date.now();
    const below = this.#below(error);
    if (below) return yield* this.#changeTo(below);
    if (!this.#inquiry.responseId && !passesSoon(error)) throw error;
    const { stopped } = this.#inquiry;
    const serverMs = saidMs(error);
    const probeMs = this.#untilNextTryMs();
    yield { type: "reconnecting", delayMs: serverMs + probeMs, reason: error.message };
    if (serverMs > 0) await delay(serverMs, stopped);
    await this.#wakeUps.pause(probeMs, stopped);
    stopped.throwIfAborted();
  }

  /** The next transport, where this one is blocked. */
  #below(error: ConnectionError): Choice | undefined {
    if (!(error instanceof BlockedError)) {
      this.#blocked = 0;
      return undefined;
    }
    this.#blocked += 1;
    const from = this.#transport?.name;
    const isHeldBack = error instanceof HeldBackError;
    const isMeant = from !== "sse" || isHeldBack || this.#blocked >= LIMITS.sseFailures;
    return from && isMeant ? this.#choice.fallBack(from, isHeldBack) : undefined;
  }

  /** The pause, less the duration of the last try. None if a wake-up came meanwhile. */
  #untilNextTryMs(): number {
    if (this.#isWoken) return 0;
    const now = Date.now();
    const delayMs = probeDelayMs(this.#blocked || this.#failures, now - this.#lostAt);
    return Math.max(0, delayMs - (now - (this.#triedAt ?? now)));
  }
}
