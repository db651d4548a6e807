import type { TransportName } from "./api.ts";
import { backoffMs } from "./backoff.ts";
import { ConnectionError, isEvenflowError } from "./errors.ts";
import * as LIMITS from "./limits.ts";
import type { Memory } from "./memory.ts";
import { BlockedError, type Transport } from "./transport.ts";

export interface Choice {
  readonly transport: Transport;
  /** Because a better one could not be had. */
  readonly fallback: boolean;
}

/** A transport, and what was found out about it. */
interface Rung {
  readonly transport: Transport;
  /** Times in a row that it failed to open, or delivered nothing. */
  failures: number;
  /** From when on it may be tried again in the middle of an answer; by HTTP, from when on it may be used at all. */
  restsUntil: number;
  /** Whether it opened again and again and delivered nothing: then it rests for questions, too. */
  isMute?: boolean;
}

/** Decides how an answer travels: by the best transport that works, which is found out again and again. */
export class TransportChoice {
  readonly #rungs: readonly Rung[];
  readonly #memory: Memory;

  /** `transports`: those that may be used, best first. What worked for the page before its reload is taken into account. */
  constructor(transports: readonly Transport[], memory: Memory) {
    this.#memory = memory;
    const worked = transports.findIndex(({ name }) => name === memory.kept.transport);
    this.#rungs = transports.map((transport, index) => ({
      transport,
      failures: index < worked ? 1 : 0,
      restsUntil: index < worked ? Date.now() + LIMITS.heldBackRestMs : 0,
    }));
  }

  /**
   * The best transport that works now. Throws if there is none. If the server can't be reached at all, no lower
   * transport is tried, and this throws, too.
   */
  async choose(): Promise<Choice> {
    let failure: unknown;
    for (const rung of this.#rungs) {
      const { transport, failures } = rung;
      // A WebSocket that may not open is tried for every question: that costs half a second at most.
      if (isResting(rung) && (transport.name !== "websocket" || (rung.isMute && failures > 0))) continue;
      try {
        await transport.connectOrProbe?.(failures > 0 ? 0 : LIMITS.openPatienceMs);
        return this.#chosen(rung);
      } catch (error) {
        if (!isEvenflowError(error)) throw error;
        failure = error;
        this.#rest(rung);
        if (error instanceof ConnectionError && !(error instanceof BlockedError)) break;
      }
    }
    throw failure;
  }

  /** The choice for an answer that fails over `from` again and again; undefined when there is nothing below that. */
  fallBack(from: TransportName, isHeldBack: boolean): Choice | undefined {
    const index = this.#rungs.findIndex(({ transport }) => transport.name === from);
    const next = this.#rungs.find((rung, below) => below > index && !isResting(rung));
    const rung = this.#rungs[index];
    if (!rung || !next) return undefined;
    rung.isMute = isHeldBack || rung.failures > 0;
    this.#rest(rung, rung.isMute ? LIMITS.heldBackRestMs : 0);
    return this.#chosen(next);
  }

  /** Notes that this transport delivered a part of an answer, which ends its row of failures. */
  carried({ name }: Transport): void {
    for (const rung of this.#rungs) if (rung.transport.name === name) rung.failures = 0;
  }

  /**
   * A better choice than `from` in the middle of an answer, if there is one by now. A call may try for one, at growing
   * intervals: a storm of returning clients, in which handshakes are refused, leaves nobody on a lower rung.
   */
  climb(from: TransportName): Choice | undefined {
    for (const rung of this.#rungs) {
      const { transport } = rung;
      if (transport.name === from) return undefined;
      if (transport.isOpen && (transport.name === "websocket" || !isResting(rung))) return this.#chosen(rung);
      if (isResting(rung)) continue;
      rung.restsUntil = Infinity;
      transport.connect?.(LIMITS.openAttemptMs).then(
        () => {
          rung.restsUntil = 0;
        },
        () => this.#rest(rung),
      );
    }
    return undefined;
  }

  /** Called when the network may have changed. */
  doubt(): void {
    for (const { transport } of this.#rungs) transport.doubt();
  }

  #chosen(rung: Rung): Choice {
    const { transport } = rung;
    rung.restsUntil = 0;
    this.#memory.keep({ transport: transport.name });
    return { transport, fallback: rung !== this.#rungs[0] };
  }

  #rest(rung: Rung, atLeastMs = 0): void {
    rung.failures += 1;
    rung.restsUntil = Date.now() + Math.max(atLeastMs, backoffMs(rung.failures));
  }
}

function isResting({ restsUntil }: Rung): boolean {
  return Date.now() < restsUntil;
}
