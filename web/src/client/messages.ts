import type { AnswerPart, Message, MessagePage, Share, ShareOptions } from "./api.ts";
import { type Content, inOrder, PLACED, textContent } from "./content.ts";
import { errorBody } from "./error-body.ts";
import { finishReason } from "./frames.ts";
import * as LIMITS from "./limits.ts";
import { after, growthBy } from "./parts.ts";
import type { Session } from "./session.ts";
import { type Checked, list, optional, shape, string } from "./shape.ts";

const message = shape({
  message_id: string,
  response_id: string,
  text: optional(string, ""),
  versions: optional(list(string), []),
  status: string,
  answer: shape({ text: string, parts: optional(list(shape(PLACED)), []) }),
  finish_reason: optional(finishReason, null),
  error: optional(errorBody, null),
});
const shared = shape({ token: string, expires_at: string, http_url: string, ws_url: string });
const page = shape({ messages: list(message), next_before: optional(string, null) });

/** Which messages are asked for. */
export interface PageOptions {
  readonly before?: string | undefined;
  readonly limit?: number | undefined;
  readonly through?: string | undefined;
}

/** A page of the conversation. Throws as {@link Session.call}. */
export async function readMessages(
  session: Session,
  { before = "", limit = 20, through = "" }: PageOptions,
): Promise<MessagePage> {
  const { sessionId } = await session.credentials();
  const query = new URLSearchParams({ limit: `${limit}`, ...(before && { before }), ...(through && { through }) });
  const call = { timeLimit: LIMITS.callTimeoutMs };
  const { messages, next_before } = await session.call(`${pathOf(sessionId)}/messages?${query}`, call, page);
  return { messages: messages.map(messageOf), before: next_before };
}

/** A token for somebody else, who reads. Throws as {@link Session.call}. */
export async function shareSession(session: Session, options: ShareOptions): Promise<Share> {
  const { sessionId } = await session.credentials();
  const { responseId, ttlSeconds, name, names } = options;
  const body = { response_id: responseId, ttl_seconds: ttlSeconds, for: name, names };
  const call = { method: "POST", body, timeLimit: LIMITS.callTimeoutMs } as const;
  const { token, expires_at, http_url, ws_url } = await session.call(`${pathOf(sessionId)}/share`, call, shared);
  const [httpUrl, websocketUrl] = [http_url || session.serverUrl, session.socketUrl(ws_url)];
  return { token, expiresAt: expires_at, httpUrl, websocketUrl };
}

/** Ends the session at the server. Throws as {@link Session.open}. */
export async function endSession(session: Session): Promise<void> {
  const { sessionId } = await session.credentials();
  await session.open(pathOf(sessionId), { method: "DELETE", timeLimit: LIMITS.callTimeoutMs });
}

function pathOf(sessionId: string): string {
  return `/session/${encodeURIComponent(sessionId)}`;
}

function messageOf({ answer, ...said }: Checked<typeof message>): Message {
  const { message_id: messageId, response_id: responseId, text: question, status } = said;
  const { finish_reason: finishReason, error } = said;
  const { text } = answer;
  const versions = said.versions.length > 0 ? said.versions : [messageId];
  return { messageId, responseId, question, versions, status, text, parts: partsOf(answer), finishReason, error };
}

function partsOf({ text, parts }: Checked<typeof message>["answer"]): readonly AnswerPart[] {
  let made: readonly AnswerPart[] = [];
  const add = (content: Content) => {
    made = after(made, growthBy(made, content, 0, 0));
  };
  for (const piece of inOrder(text, parts)) {
    add(textContent(piece.text));
    if (piece.part) add(piece.part);
  }
  return made;
}
