import { timeout } from "../client/delay.ts";

/** Whether a page reaches a server. `forbidden`: the server responds, but does not allow this page's origin. */
export type Reach = "reached" | "unreachable" | "forbidden";

/** The timeout of a probe, and the pauses between probes, in milliseconds. */
const LOOK_MS = 5_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
/** A call that needs no session: only pages of allowed origins can read its rejection. */
const PROBE = "/chat/message/none";

/** Probes the server at `url`. Browsers hide why a call failed, but allow calls whose response can't be read. */
export async function reachOf(url: string): Promise<Reach> {
  if (await answers(url, "cors")) return "reached";
  if (new URL(url).origin === origin || !(await answers(url, "no-cors"))) return "unreachable";
  return "forbidden";
}

async function answers(url: string, mode: "cors" | "no-cors"): Promise<boolean> {
  try {
    await fetch(url + PROBE, { mode, credentials: "omit", cache: "no-store", signal: timeout(LOOK_MS) });
    return true;
  } catch {
    return false;
  }
}

/** Probes a lost server until it responds again. */
export class ServerWatch {
  readonly #onLook: (reach: Reach) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #round = 0;

  /** `onLook` receives the result of each probe. */
  constructor(onLook: (reach: Reach) => void) {
    this.#onLook = onLook;
  }

  /** Starts with a probe at once, and replaces an earlier watch. */
  start(url: string): void {
    this.stop();
    void this.#look(url, this.#round, FIRST_PAUSE_MS);
  }

  stop(): void {
    this.#round += 1;
    clearTimeout(this.#timer);
  }

  async #look(url: string, round: number, pauseMs: number): Promise<void> {
    const reach = await reachOf(url);
    if (round !== this.#round) return;
    this.#onLook(reach);
    if (reach !== "unreachable") return;
    const next = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    this.#timer = setTimeout(() => void this.#look(url, round, next), pauseMs);
  }
}

/** Tells the page's developer, in the console, how to allow its origin. */
export function advise(url: string): void {
  // biome-ignore lint/suspicious/noConsole: developers look there
  console.error(adviceFor(url));
}

/** Warns the page's developer, in the console, of a wrong address. `reason`: why the last try failed. */
export function adviseOfAddress(url: string | undefined, reason: string): void {
  // biome-ignore lint/suspicious/noConsole: developers look there
  console.error(
    `Evenflow: nothing has answered at ${url ?? "the client's address"} so far (${reason}). The question is kept and ` +
      "tried again. If the server has another address, correct `url`.",
  );
}

function adviceFor(url: string): string {
  return origin === "null"
    ? `Evenflow: ${url} lets no page in that was opened as a file, which has no origin. Serve the page over HTTP, from ` +
        "http://localhost:8000 for instance, and start the server with EVENFLOW_ALLOWED_ORIGINS=http://localhost:8000"
    : `Evenflow: ${url} does not let pages of ${origin} in. Start the server with EVENFLOW_ALLOWED_ORIGINS=${origin} to allow them.`;
}
