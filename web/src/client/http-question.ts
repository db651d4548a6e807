import type { AnswerEvent } from "./api.ts";
import type { Inquiry } from "./inquiry.ts";
import * as LIMITS from "./limits.ts";
import type { Session } from "./session.ts";
import { shape, string } from "./shape.ts";

const answer = shape({ response_id: string });

/** The path of a response's calls. */
export function pathOf(responseId: string): string {
  return `/chat/message/${encodeURIComponent(responseId)}`;
}

/** Sends the question by HTTP, unless the server has it, and returns the response's id. Throws as {@link Session.call}. */
export async function* submit(
  session: Session,
  inquiry: Inquiry,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent, void, void> {
  if (inquiry.responseId) return;
  const { wording: body, messageId } = inquiry;
  const { response_id: responseId } = await session.whileReached(signal, (signal) =>
    session.call("/chat/message", { method: "POST", body, timeLimit: LIMITS.callTimeoutMs, signal }, answer),
  );
  inquiry.responseId = responseId;
  if (inquiry.stopped.aborted) await cancel(session, inquiry);
  yield { type: "accepted", responseId, messageId };
}

/** Stops the model by HTTP, where there is a response to stop. Throws as {@link Session.call}. */
export async function cancel(session: Session, { responseId }: Inquiry): Promise<void> {
  if (!responseId) return;
  await session.call(`${pathOf(responseId)}/cancel`, { method: "POST", timeLimit: LIMITS.stopMs }, shape({}));
}
