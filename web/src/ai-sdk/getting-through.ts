import { probeDelayMs } from "../client/backoff.ts";
import { delay, firstOf, timeout, unlessAborted } from "../client/delay.ts";
import { hedged } from "../client/hedge.ts";
import * as LIMITS from "../client/limits.ts";
import type { WakeUps } from "../client/wake-up.ts";

/** The longest `Retry-After` that is waited for. */
const SOON_SECONDS = 60;

/** After this time without any answer the address may be wrong, in milliseconds. */
const NO_ANSWER_MS = 8_000;

/** Makes a call, which `signal` ends. */
export type Call = (signal: AbortSignal) => Promise<Response>;

/** Gets calls through to a server, however long the network takes. */
export class GettingThrough {
  readonly #probe: Call;
  readonly #wakeUps: WakeUps;
  /** Whether a server has answered, or the console has the warning that none does. */
  #isSettled = false;

  /** `probe` is a call that the server answers at once, whatever it says. */
  constructor(probe: Call, wakeUps: WakeUps) {
    this.#probe = probe;
    this.#wakeUps = wakeUps;
  }

  /**
   * Makes a call, again and again while the server can't be reached, or names a time to come again. Any other answer of
   * the server is the result, since the server itself retries what can be. So is the last of many refusals, unless the
   * question `isAccepted`: its answer is never given up. `isQuick`: the call is normally answered at once.
   */
  async respond(call: Call, signal: AbortSignal, isAccepted: boolean, isQuick = false): Promise<Response> {
    const begunAt = Date.now();
    let lostAt = begunAt;
    const endWakeUps = this.#wakeUps.on(() => {
      lostAt = Date.now();
    });
    try {
      for (let failures = 1, refusals = 1; ; failures += 1) {
        const triedAt = Date.now();
        const response = await this.#try(call, signal, isAccepted, isQuick, failures);
        if (response === undefined) {
          if (Date.now() - begunAt > NO_ANSWER_MS) this.#adviseOfAddress();
          const isWoken = lostAt > triedAt;
          const pauseMs = isWoken ? 0 : probeDelayMs(failures, Date.now() - lostAt) - (Date.now() - triedAt);
          await this.#wakeUps.pause(Math.max(0, pauseMs), signal);
          continue;
        }
        this.#isSettled = true;
        const laterMs = laterMsOf(response);
        if (laterMs === undefined || (refusals > LIMITS.refusals && !isAccepted)) return response;
        await delay(laterMs + probeDelayMs(refusals, 0), signal);
        refusals += 1;
      }
    } finally {
      endWakeUps();
    }
  }

  /** The answer to a call; undefined if the server can't be reached, or something in between has answered. */
  async #try(
    call: Call,
    signal: AbortSignal,
    isAccepted: boolean,
    isQuick: boolean,
    failures: number,
  ): Promise<Response | undefined> {
    const [end, over] = [new AbortController(), new AbortController()];
    const begunAt = Date.now();
    const endWakeUps = this.#wakeUps.on(() => {
      if (Date.now() - begunAt > LIMITS.doubtMs) end.abort();
    });
    const watch = isQuick ? this.#limit(end, over.signal, failures) : this.#watch(end, over.signal);
    watch.catch(() => {});
    const either = firstOf(signal, end.signal);
    try {
      // A chat's own `fetch` may ignore the signal.
      const response = await unlessAborted(end.signal, isQuick ? hedged(either, call) : call(either));
      return isOurs(response, isAccepted) ? response : undefined;
    } catch (error) {
      // Any other error than those of `fetch` comes from the function that gives the headers.
      if (signal.aborted || !(error instanceof TypeError || end.signal.aborted)) throw error;
      return undefined;
    } finally {
      endWakeUps();
      over.abort();
    }
  }

  /** Ends a call that is not answered at once; every third one has longer, for slow lines. */
  async #limit(end: AbortController, over: AbortSignal, failures: number): Promise<void> {
    await delay(LIMITS.probeMs * (failures % LIMITS.longProbeEvery === 0 ? 2 : 1), over);
    end.abort();
  }

  /** Ends a call that is silent because the server can't be reached. */
  async #watch(end: AbortController, over: AbortSignal): Promise<void> {
    for (let silenceMs = LIMITS.callSilenceMs; ; silenceMs = LIMITS.longCallSilenceMs) {
      await delay(silenceMs, over);
      if (!(await this.#isReached())) end.abort();
    }
  }

  /** Warns the page's developer once, in the console, that the address may be wrong. */
  #adviseOfAddress(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    // biome-ignore lint/suspicious/noConsole: developers look there
    console.error(
      "Evenflow: no server has answered at the chat's address so far. The call is kept and tried again. " +
        "If the server has another address, correct `api`.",
    );
  }

  async #isReached(): Promise<boolean> {
    try {
      return isOurs(await this.#probe(timeout(LIMITS.probeMs)), false);
    } catch {
      return false;
    }
  }
}

/**
 * Whether the response is the server's own, and not that of a proxy that doesn't reach it or of a network with a login
 * page. An HTML page is never an answer; before the question was accepted, an error page may be your own backend's.
 */
function isOurs({ ok, status, headers }: Response, isAccepted: boolean): boolean {
  const type = headers.get("content-type") ?? "";
  if (type.startsWith("text/html") && (ok || isAccepted)) return false;
  return ok || type.includes("json") || status < 502;
}

/** How long the server says to wait, in milliseconds; undefined if it doesn't, or for too long. */
function laterMsOf({ status, headers }: Response): number | undefined {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const isLater = (status === 429 || status === 503) && headers.get("x-should-retry") !== "false";
  return isLater && seconds <= SOON_SECONDS ? seconds * 1_000 : undefined;
}
