import { eventsOf } from "./events.ts";

/** How often in a row a lost connection is opened anew before the reader is told. */
const MOST_TRIES = 8;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** What the server says comes later than this is not waited for. */
const SOON_SECONDS = 60;

interface Chunk {
  type: string;
  code?: string;
}

/** The error that AI SDK takes for a lost connection: it keeps what it has, to be resumed later. */
function lost(): TypeError {
  return new TypeError("network error: the connection was lost, and could not be opened again");
}

/** Tells whether an answer says that asking again may help soon. */
function maySoonPass({ status, headers }: Response): boolean {
  if (headers.get("x-should-retry") === "false" || Number(headers.get("retry-after")) > SOON_SECONDS) return false;
  return status === 429 || status === 502 || status === 503 || status === 504;
}

/** Makes a call, again and again while it does not get through. */
export async function getThrough(call: () => Promise<Response>, signal: AbortSignal | undefined): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    const response = await call().catch((error: unknown) => {
      if (signal?.aborted || attempt >= MOST_TRIES) throw signal?.aborted ? error : lost();
    });
    if (response && (!maySoonPass(response) || attempt >= MOST_TRIES)) return response;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
    await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
    signal?.throwIfAborted();
  }
}

/**
 * An answer that outlives its connections: where one is lost, the next one goes on behind the last chunk that has an
 * id. Chunks without one are held until theirs comes, so none is given twice.
 */
export class LastingAnswer {
  /** The answer's id, once the server has said it. */
  id: string | undefined;
  readonly #again: (lastId: string, id: string | undefined) => Promise<Response>;
  readonly #onEnd: () => void;
  #lastId = "";

  constructor(again: (lastId: string, id: string | undefined) => Promise<Response>, onEnd: () => void) {
    this.#again = again;
    this.#onEnd = onEnd;
  }

  async *chunks(first: Response): AsyncGenerator<Chunk, void, void> {
    let response = first;
    this.id = first.headers.get("x-request-id") ?? undefined;
    for (let idle = 0; idle < MOST_TRIES; idle++) {
      const before = this.#lastId;
      if (yield* this.#read(response)) return;
      if (this.#lastId !== before) idle = 0;
      response = await this.#again(this.#lastId, this.id);
    }
    throw lost();
  }

  /** Gives what one connection brings. Returns whether that is all. */
  async *#read(response: Response): AsyncGenerator<Chunk, boolean, void> {
    let held: Chunk[] = [];
    if (response.body === null) return false;
    try {
      for await (const { id, data } of eventsOf(response.body)) {
        const chunk: Chunk | undefined = data === "[DONE]" ? undefined : JSON.parse(data);
        if (chunk?.code === "too_slow") return false;
        if (chunk !== undefined) held.push(chunk);
        if (chunk !== undefined && id === "") continue;
        yield* held;
        held = [];
        if (chunk === undefined) {
          this.#onEnd();
          return true;
        }
        this.#lastId = id;
      }
    } catch (error) {
      if (error instanceof SyntaxError) throw error;
    }
    return false;
  }
}
