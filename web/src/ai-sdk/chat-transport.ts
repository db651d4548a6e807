import { firstOf } from "../client/delay.ts";
import { WakeUps } from "../client/wake-up.ts";
import { type Call, GettingThrough } from "./getting-through.ts";
import { type Again, LastingAnswer } from "./lasting-answer.ts";

/** A value, or what gives it anew for each call. */
export type Given<T> = T | (() => T | Promise<T>);
type Headers_ = Record<string, string> | Headers;
/** The id of no chat: the server says at once that no answer runs in it. */
const NO_CHAT = "-";

export interface EvenflowChatTransportOptions {
  /** The address of `POST /api/chat`. That path of the page's own origin where it is left out. */
  api?: string;
  /** Headers of all calls, such as `Authorization`. */
  headers?: Given<Headers_>;
  /** Further fields of each question: `model`, `temperature`, `tools` … */
  body?: Given<object>;
  /** Calls in the place of the platform's `fetch`. */
  fetch?: typeof fetch;
}

interface CallOptions {
  chatId: string;
  abortSignal?: AbortSignal | undefined;
  headers?: Headers_ | undefined;
  body?: object | undefined;
}

interface Question extends CallOptions {
  trigger: "submit-message" | "regenerate-message";
  messageId: string | undefined;
  messages: readonly unknown[];
}

/**
 * AI SDK's `ChatTransport` for Evenflow. It resumes after a lost connection, without the chat noticing, and `stop()`
 * stops the model, also after a reload.
 *
 * `CHUNK` is AI SDK's `UIMessageChunk`. This module needs nothing of AI SDK, so its types are the caller's.
 */
export class EvenflowChatTransport<CHUNK = never> {
  /** Who reconnects is told the answer from its beginning. */
  readonly resumeStreamIsReplay = true;
  readonly #options: EvenflowChatTransportOptions;
  /** The newest call of each chat, aborted by the next one: an older one no longer stands for the chat. */
  readonly #newest = new Map<string, AbortController>();
  readonly #wakeUps = new WakeUps();
  readonly #through = new GettingThrough(
    (signal) => this.#call("/stream", { chatId: NO_CHAT }, { signal }),
    this.#wakeUps,
  );

  constructor(options: EvenflowChatTransportOptions = {}) {
    this.#options = options;
  }

  /** Sends a conversation. Its answer is read to its end, over as many connections as that takes. */
  async sendMessages(question: Question): Promise<ReadableStream<CHUNK>> {
    const { chatId: id, messages, trigger, messageId } = question;
    const body = JSON.stringify({
      ...(await resolved(this.#options.body)),
      ...question.body,
      id,
      messages,
      trigger,
      messageId,
    });
    const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
    const ask: Again = async (lastId, responseId, signal, isMoving) => {
      // Once the answer has an id, the question is not uploaded again.
      const known =
        responseId === undefined ? undefined : await this.#read(question, lastId, responseId, signal, isMoving);
      if (known && known.status !== 404 && known.status !== 405) return known;
      return this.#call(null, question, { method: "POST", body, headers: { ...headers, ...from(lastId) }, signal });
    };
    const { answer, first } = this.#begin(question, ask);
    const response = await first();
    await check(response);
    return stream(answer, response);
  }

  /** Reads the answer that runs in a chat, from its beginning. `null` where none does. */
  async reconnectToStream(options: CallOptions): Promise<ReadableStream<CHUNK> | null> {
    const ask: Again = (...where) => this.#read(options, ...where);
    const { answer, first, forget } = this.#begin(options, ask);
    const response = await first();
    if (response.status === 204) forget();
    if (response.status === 204) return null;
    await check(response);
    return stream(answer, response);
  }

  /** The messages of a chat, with the answer so far, for `useChat` after a reload. A new chat has none. */
  async messages<MESSAGE = never>(chatId: string): Promise<MESSAGE[]> {
    const call: Call = (signal) => this.#call("", { chatId }, { signal });
    const response = await this.#through.respond(call, new AbortController().signal, true);
    await check(response);
    return (await response.json()).messages;
  }

  /** Stops the answer that runs in a chat, and its model, whoever reads it. */
  async stop(chatId: string, activeStreamId?: string): Promise<void> {
    await this.#stop(chatId, activeStreamId, new AbortController().signal);
  }

  async #stop(chatId: string, activeStreamId: string | undefined, signal: AbortSignal): Promise<void> {
    const body = JSON.stringify({ activeStreamId });
    const headers = { "content-type": "application/json" };
    const call: Call = (signal) => this.#call("/stop", { chatId }, { method: "POST", body, headers, signal });
    await check(await this.#through.respond(call, signal, true));
  }

  /** Begins to read an answer. Its model is stopped where the chat aborts that. */
  #begin({ chatId, abortSignal }: CallOptions, ask: Again) {
    const { signal: never } = new AbortController();
    const newest = new AbortController();
    this.#newest.get(chatId)?.abort();
    this.#newest.set(chatId, newest);
    const isNewest = () => this.#newest.get(chatId) === newest;
    // Without an id a stop ends whatever runs in the chat. After the next question that is another answer.
    const until = () => (answer.id === undefined ? newest.signal : never);
    // A call that only makes way for the next one of its chat is aborted, too: that one comes at once.
    const stop = () => setTimeout(() => isNewest() && this.#stop(chatId, answer.id, until()).catch(() => {}));
    const forget = () => {
      abortSignal?.removeEventListener("abort", stop);
      if (isNewest()) this.#newest.delete(chatId);
    };
    const first = () => this.#through.respond((signal) => ask("", undefined, signal), abortSignal ?? never, false);
    const again: Again = async (lastId, id, signal, isMoving) => {
      const either = firstOf(...[signal, abortSignal ?? []].flat());
      const call: Call = (signal) => ask(lastId, id, signal, isMoving);
      const response = await this.#through.respond(call, either, true, id !== undefined);
      await check(response);
      return response;
    };
    const answer = new LastingAnswer(again, this.#wakeUps, forget);
    abortSignal?.addEventListener("abort", stop, { once: true });
    return { answer, first, forget };
  }

  #read(options: CallOptions, ...[lastId, id, signal, isMoving]: Parameters<Again>): Promise<Response> {
    const moving = isMoving ? "&moving=1" : "";
    const query = id === undefined ? "" : `?response_id=${encodeURIComponent(id)}${moving}`;
    return this.#call(`/stream${query}`, options, { headers: from(lastId), signal });
  }

  /** `path` is relative to the chat's own. `null`: the call belongs to no existing chat. */
  async #call(path: string | null, { chatId, headers }: CallOptions, init: RequestInit): Promise<Response> {
    const { api = "/api/chat", fetch: call = fetch } = this.#options;
    const all = new Headers(await resolved(this.#options.headers));
    for (const [name, value] of [...new Headers(headers), ...new Headers(init.headers)]) all.set(name, value);
    const url = path === null ? api : `${api}/${encodeURIComponent(chatId)}${path}`;
    // As in the client library: Chromium's cache makes a call wait for another one to the same address.
    return call(url, { cache: "no-store", ...init, headers: all });
  }
}

async function resolved<T>(given: Given<T> | undefined): Promise<T | undefined> {
  return typeof given === "function" ? (given as () => T | Promise<T>)() : given;
}

function stream<CHUNK>(answer: LastingAnswer, first: Response): ReadableStream<CHUNK> {
  const chunks = answer.chunks(first);
  return new ReadableStream<CHUNK>({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value as CHUNK);
    },
    async cancel() {
      answer.leave();
      await chunks.return();
    },
  });
}

function from(lastId: string): Record<string, string> {
  return lastId === "" ? {} : { "last-event-id": lastId };
}

/** Throws what the server says, as AI SDK's own transport does: the body is the message. */
async function check(response: Response): Promise<void> {
  if (!response.ok) throw new Error(await response.text());
}
