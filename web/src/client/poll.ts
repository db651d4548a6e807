import { PLACED } from "./content.ts";
import { errorBody } from "./error-body.ts";
import { epoch, finishReason, HISTORY, usage } from "./frames.ts";
import { readJson } from "./http-call.ts";
import { pathOf } from "./http-question.ts";
import type { Inquiry } from "./inquiry.ts";
import type { Session } from "./session.ts";
import { type Checked, flag, index, list, optional, shape, string } from "./shape.ts";

/** What one poll is answered with. */
const answer = shape({
  new_text: string,
  /** What is no text. */
  events: optional(list(shape({ index, ...PLACED })), []),
  /** `queued`, `streaming`, and then for good `completed`, `error` or `cancelled`. */
  status: string,
  metadata: shape({
    next_index: index,
    epoch,
    /** Only what is up to its `from_index` is kept of what came before. */
    restarted: optional(shape({ from_index: index }), null),
    finish_reason: optional(finishReason, null),
    usage,
    degraded: flag,
    error: optional(errorBody, null),
    ...HISTORY,
  }),
});

export type Poll = Checked<typeof answer>;

/** Asks for what follows what is held; the server may take `patienceMs`, and all may take `timeLimit`. Throws as {@link Session.open}. */
export async function openPoll(
  session: Session,
  { responseId = "", log }: Inquiry,
  patienceMs: number,
  timeLimit: number,
  signal: AbortSignal,
): Promise<Response> {
  const query = `?from_index=${log.lastIndex + 1}&epoch=${log.epoch}&timeout_ms=${patienceMs}`;
  return await session.open(pathOf(responseId) + query, { timeLimit, signal });
}

/** What {@link openPoll} was answered with. Throws as {@link readJson}. */
export function readPoll(response: Response, signal: AbortSignal): Promise<Poll> {
  return readJson({ signal }, response, answer);
}

/** Whether the response has ended. A status that is not known is not the end. */
export function isFinal({ status }: Poll): boolean {
  return ["completed", "error", "cancelled"].includes(status);
}
