import type {
  Answer,
  AnswerEvent,
  AskOptions,
  Client,
  ClientEvents,
  ConnectionState,
  ConnectOptions,
  Draft,
  Message,
  MessagePage,
  Share,
  ShareOptions,
  TransportName,
} from "./api.ts";
import { unlessAborted } from "./delay.ts";
import { Delivery } from "./delivery.ts";
import { Emitter } from "./emitter.ts";
import { newId, tabStorage } from "./environment.ts";
import { BusyError, ClosedError } from "./errors.ts";
import type { FrameOf } from "./frames.ts";
import { Inquiry } from "./inquiry.ts";
import { LiveAnswer } from "./live-answer.ts";
import { LongPollTransport } from "./long-poll-transport.ts";
import { type Asked, Memory } from "./memory.ts";
import { endSession, type PageOptions, readMessages, shareSession } from "./messages.ts";
import { Session } from "./session.ts";
import { SseTransport } from "./sse-transport.ts";
import { TransportChoice } from "./transport-choice.ts";
import { WakeUps } from "./wake-up.ts";
import { WebSocketTransport } from "./websocket-transport.ts";

/** The answer under way, and what was asked. */
interface Current {
  readonly answer: LiveAnswer;
  readonly inquiry: Inquiry;
}

/** See {@link Client}. */
export class EvenflowClient implements Client {
  readonly #memory: Memory;
  readonly #session: Session;
  readonly #websocket: WebSocketTransport;
  readonly #choice: TransportChoice;
  readonly #emitter = new Emitter<ClientEvents>();
  readonly #wakeUps = new WakeUps();
  readonly #closed = new AbortController();
  #current: Current | undefined;
  transport: TransportName | null = null;
  connection: ConnectionState = "connecting";
  resumable: Answer | null = null;
  readonly isResumed: boolean;

  constructor(options: ConnectOptions) {
    const { url, tenant, agent, transports, storage = tabStorage() } = options;
    this.#memory = new Memory(storage, `evenflow.1 ${[url, tenant, agent]}`);
    this.#session = new Session(options, this.#memory);
    this.isResumed = this.#memory.kept.credentials !== undefined;
    this.#websocket = new WebSocketTransport(this.#session, {
      onLost: () => this.#onLost(),
      onMessage: (message) => this.#onMessage(message),
    });
    const all = [this.#websocket, new SseTransport(this.#session), new LongPollTransport(this.#session)].filter(
      ({ name }) => transports?.includes(name) ?? true,
    );
    this.#choice = new TransportChoice(all, this.#memory);
    const { asked } = this.#memory.kept;
    // What another version kept may lack it.
    if (asked?.payload) this.resumable = this.#answerTo(asked);
  }

  on<E extends keyof ClientEvents>(event: E, listener: (detail: ClientEvents[E]) => void): () => void {
    return this.#emitter.on(event, listener);
  }

  /** Opens the session and the connection ahead of the first question, which tries again if that fails. */
  async open(): Promise<void> {
    try {
      await this.#session.credentials();
      const { transport } = await this.#choice.choose();
      if (!this.#current) this.#travelBy(transport.name);
    } catch {
      if (!this.#current) this.#enter("waiting");
    }
  }

  get draft(): Draft | null {
    return this.#memory.kept.draft ?? null;
  }

  set draft(draft: Draft | null) {
    this.#memory.keep({ draft });
  }

  get suggestions(): readonly string[] {
    return this.#memory.kept.credentials?.suggestions ?? [];
  }

  ask(text: string, { signal, replaces, parent, timeoutMs, ...said }: AskOptions = {}): Answer {
    const asked = {
      messageId: newId(),
      previousMessageId: this.#memory.kept.lastMessageId ?? null,
      replaces,
      parent,
      payload: { text, timeout_ms: timeoutMs, ...said },
    };
    const answer = this.#answerTo(asked);
    answer.begin();
    // Where the answer has ended by itself there is nothing to stop.
    if (signal) unlessAborted(signal, answer.done).catch(() => answer.stop());
    return answer;
  }

  async messages(options: PageOptions = {}): Promise<MessagePage> {
    const page = await readMessages(this.#session, options);
    const last = page.messages.slice(-1)[0];
    if (last && !options.before && !options.through && !this.#current)
      this.#memory.keep({ lastMessageId: last.messageId });
    return page;
  }

  follow({ messageId, responseId, question }: Pick<Message, "messageId" | "responseId" | "question">): Answer {
    return this.#answerTo({ messageId, responseId, previousMessageId: null, payload: { text: question } });
  }

  share(options: ShareOptions = {}): Promise<Share> {
    return shareSession(this.#session, options);
  }

  async end(): Promise<void> {
    await endSession(this.#session);
    this.#websocket.leave("the session has ended");
    this.#memory.keep({ credentials: undefined, lastMessageId: null, asked: undefined, draft: null });
  }

  reconnect(): void {
    if (this.connection === "closed") return;
    this.#wakeUps.ring();
    if (this.#current || this.#websocket.isOpen) return;
    this.#enter("connecting");
    void this.open();
  }

  close(): void {
    this.#enter("closed");
    this.#closed.abort();
    this.#websocket.close();
    this.#current?.inquiry.abandon();
    this.#current?.answer.fail(new ClosedError());
  }

  #answerTo(asked: Asked): LiveAnswer {
    const inquiry = new Inquiry(asked);
    const delivery = new Delivery(inquiry, this.#session, this.#choice, this.#wakeUps, this.#closed.signal);
    const answer: LiveAnswer = new LiveAnswer(asked, {
      run: () => this.#deliver({ answer, inquiry }, asked, delivery),
      stop: () => delivery.stop(),
      hold: (paused) => delivery.hold(paused),
    });
    return answer;
  }

  async *#deliver(current: Current, asked: Asked, delivery: Delivery): AsyncGenerator<AnswerEvent, void, void> {
    if (this.connection === "closed") throw new ClosedError();
    if (this.#current) throw new BusyError();
    this.#current = current;
    if (this.resumable !== current.answer) this.resumable = null;
    this.#memory.keep({ asked });
    let completed: AnswerEvent | undefined;
    try {
      for await (const event of delivery.run()) {
        this.#note(event, asked);
        if (event.type === "completed") completed = event;
        else yield event;
      }
    } finally {
      // A client that was closed may have a successor, to which the answer is left.
      if (!current.inquiry.isLeft) this.#memory.keep({ asked: undefined });
      this.#current = undefined;
      this.resumable = null;
    }
    // Who hears of the end may ask at once.
    if (completed) yield completed;
  }

  #note(event: AnswerEvent, asked: Asked): void {
    if (event.type === "transport") this.#travelBy(event.transport);
    if (event.type === "accepted") {
      const { messageId: lastMessageId, responseId } = event;
      this.#memory.keep({ lastMessageId, asked: { ...asked, responseId } });
    }
    if (event.type === "waiting") this.#emitter.emit("throttle", { retryAfterMs: event.delayMs, code: event.code });
    this.#enter(event.type === "reconnecting" ? "waiting" : "open");
  }

  #travelBy(transport: TransportName): void {
    this.#enter("open");
    if (this.transport === transport) return;
    this.transport = transport;
    this.#emitter.emit("transport", transport);
  }

  #onLost(): void {
    if (!this.#current) this.#enter("waiting");
  }

  #onMessage({
    message_id: messageId,
    response_id: responseId,
    text: question,
    replaces,
    parent_message_id: parent,
  }: FrameOf<"session.message">): void {
    if (!this.#current) this.#memory.keep({ lastMessageId: messageId });
    this.#emitter.emit("message", { messageId, responseId, question, replaces, parent });
  }

  #enter(connection: ConnectionState): void {
    if (this.connection === connection || this.connection === "closed") return;
    this.connection = connection;
    this.#emitter.emit("connection", connection);
  }
}
