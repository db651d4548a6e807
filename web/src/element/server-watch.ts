import { timeout } from "../client/delay.ts";

/** What a page can find out about a server: `forbidden` is there, and does not let pages of this origin in. */
export type Reach = "reached" | "unreachable" | "forbidden";

/** How long one look may take, and the pauses between them, in milliseconds. */
const LOOK_MS = 5_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
/** A call that needs no session: its refusal can be read by every page that is let in, and by no other. */
const PROBE = "/chat/message/none";

/** Looks at the server at `url`. A browser doesn't say why a call failed: what may not be read may still be sent. */
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

/** Looks at a server that was lost, until it is there again. */
export class ServerWatch {
  readonly #onLook: (reach: Reach) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #round = 0;

  /** `onLook` is told what each look has found. */
  constructor(onLook: (reach: Reach) => void) {
    this.#onLook = onLook;
  }

  /** Begins, at once; a watch that was begun before ends. */
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

/** Tells whoever has made the page how it is let in: its reader can do nothing about it. */
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
