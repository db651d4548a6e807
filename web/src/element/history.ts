import { WakeUps } from "../client/wake-up.ts";
import { Announcer } from "./announcer.ts";
import type { ChatAnswer, ChatClient, ChatMessage, ChatPage, ChatQuestion, OtherQuestion } from "./chat-client.ts";
import type { ConversationView } from "./conversation-view.ts";
import { Exchange } from "./exchange.ts";
import { button } from "./made.ts";
import type { Offers } from "./offers.ts";
import { mayPass } from "./plain-language.ts";
import { StatusView } from "./status-view.ts";
import type { Views } from "./views.ts";

/** The pauses between two attempts to read the earlier conversation, in milliseconds. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** What the history needs of its element. */
export interface HistoryActions {
  /** The reader's choices below an answer; `exchange` is called when they use one. */
  offersOf(exchange: () => Exchange): Offers;
  /** Shows a running answer. */
  show(answer: ChatAnswer): void;
  /** The exchange of the running answer, if it is for this message. */
  underWay(messageId: string): Exchange | undefined;
  /** Whether an answer is running. */
  isBusy(): boolean;
  /** Stores the version of the conversation on the screen ({@link History.parent}) for a reload. */
  keepVersion(): void;
}

/** Shows the messages from before this page was loaded, and those that were sent elsewhere since. */
export class History {
  readonly #client: ChatClient;
  readonly #views: Views;
  readonly #actions: HistoryActions;
  /** Loads older messages; shown while there are any. */
  readonly earlier = button({ class: "quiet earlier", testId: "earlier", hidden: true }, () => this.#addEarlier());
  /** The messages on the screen, with the exchanges that show earlier ones. */
  readonly #known = new Map<string, Exchange | undefined>();
  /** The last message on the screen. */
  last: string | undefined;
  /** The last message of the conversation, which may be in another version than the one on the screen. */
  #newest: string | undefined;
  /** The version that was on the screen before a reload, until it is shown again. */
  #chosen: string | undefined;
  #before: string | null = null;
  #isMissing = false;
  /** Ends the pause before the next attempt. `#over` ends all attempts. */
  readonly #wakeUps = new WakeUps();
  readonly #over = new AbortController();

  constructor(client: ChatClient, conversation: ConversationView, actions: HistoryActions) {
    this.#client = client;
    this.#actions = actions;
    // Earlier messages are neither announced nor shown in the status.
    this.#views = { conversation, announcer: new Announcer(document.createElement("div")), status: new StatusView() };
  }

  /** Records a message that is on the screen already. */
  note(messageId: string | undefined): void {
    if (messageId !== undefined && !this.#known.has(messageId)) this.#known.set(messageId, undefined);
  }

  /** Records a message that the server has just accepted, and that is the last one on the screen. */
  noteLast(messageId: string | undefined): void {
    if (messageId === undefined) return;
    this.last = this.#newest = messageId;
    this.#chosen = undefined;
    this.#actions.keepVersion();
  }

  /** Records that an older version, with this last message, is on the screen again. */
  putBack(last: string | undefined): void {
    this.last = last;
    this.#actions.keepVersion();
  }

  /** The last message of the older version that the next question continues, if it does. */
  get parent(): string | undefined {
    return this.#chosen ?? (this.last === this.#newest ? undefined : this.last);
  }

  /** The exchange that shows an earlier message. */
  exchangeOf(messageId: string): Exchange | undefined {
    return this.#known.get(messageId);
  }

  /**
   * Shows the earlier conversation, if there is one, above all messages. If the server can't be reached it retries at
   * growing intervals, and at once when the connection opens. `chosen`: the last message of the older version that
   * was on the screen.
   */
  async restore(chosen?: string): Promise<void> {
    if (this.#client.isResumed !== true) return;
    this.#chosen = chosen;
    const page = await this.#newestPage();
    const isOlder = this.#chosen !== undefined && page?.messages.at(-1)?.messageId !== chosen;
    const older = isOlder ? await this.#read({ through: chosen }) : undefined;
    this.#chosen = undefined;
    if (page !== undefined && !this.#over.signal.aborted) this.#take(older ?? page, page);
  }

  /** Shows the version of the conversation that has this message, at the place of `before` on the screen. */
  async select(messageId: string, before: HTMLElement): Promise<Exchange | undefined> {
    const messages: ChatMessage[] = [];
    let page: ChatPage | undefined;
    do {
      page = await this.#read({ before: page?.before ?? undefined, through: messageId });
      if (page === undefined) return undefined;
      messages.unshift(...page.messages);
    } while (page.before !== null && messages.every((message) => message.messageId !== messageId));
    if (this.#actions.isBusy()) return undefined;
    const all = { messages, before: page.before };
    this.#note(all);
    this.last = messages.slice(-1)[0]?.messageId;
    this.#actions.keepVersion();
    this.#views.conversation.redraw(before, () => {
      this.#known.clear();
      this.#draw(all);
      return this.exchangeOf(messageId)?.questionView.element;
    });
    return this.exchangeOf(messageId);
  }

  /** Starts to show questions from elsewhere. Returns a function that stops this, and all else. */
  listen(): () => void {
    const ends = [
      this.#client.on("message", (message) => this.#onMessage(message)),
      this.#client.on("connection", (state) => {
        if (state === "open" || state === "closed") this.#wakeUps.ring();
      }),
    ];
    return () => {
      this.#over.abort();
      for (const end of ends) end();
    };
  }

  /** Catches up when the page is visible again: without a connection it received nothing meanwhile. */
  lookAgain(): void {
    if (!document.hidden && this.#client.connection === "waiting") void this.catchUp();
  }

  /** Shows what was sent elsewhere since, if there may be something. A running answer is not disturbed. */
  async catchUp(): Promise<void> {
    if (this.#known.size === 0) return;
    this.#isMissing = this.#actions.isBusy();
    if (this.#isMissing) return;
    const page = await this.#read({});
    if (page === undefined || !this.#hasNews(page)) return;
    this.#views.conversation.clear();
    this.#known.clear();
    this.#take(page);
  }

  /** Shows what was missed while an answer was running. */
  async onIdle(): Promise<void> {
    if (this.#isMissing) await this.catchUp();
  }

  #onMessage(message: OtherQuestion): void {
    if (this.#known.has(message.messageId)) return;
    const isOfOther = message.replaces !== null || (message.parent ?? null) !== null || this.parent !== undefined;
    if (this.#actions.isBusy() || isOfOther) void this.catchUp();
    else {
      this.noteLast(message.messageId);
      this.#follow(message);
    }
  }

  /**
   * Whether there is a new message from elsewhere. For an older version, only messages newer than all count.
   */
  #hasNews({ messages }: ChatPage): boolean {
    if (this.parent !== undefined) return messages.slice(-1)[0]?.messageId !== this.#newest;
    return messages.some(({ messageId }) => !this.#known.has(messageId));
  }

  /** Shows a page: the newest of the conversation, or of an older version. */
  #take(page: ChatPage, newest = page): void {
    this.last = page.messages.slice(-1)[0]?.messageId;
    this.#newest = newest.messages.slice(-1)[0]?.messageId;
    this.#actions.keepVersion();
    this.#note(page);
    this.#draw(page);
  }

  /**
   * Reads a page of the conversation. `undefined` if the session is new by now, or the server can't be reached: then
   * the screen doesn't change.
   */
  async #read(options: { readonly before?: string | undefined; readonly through?: string | undefined }) {
    const page = await this.#client.messages?.(options).catch(() => undefined);
    return this.#over.signal.aborted ? undefined : page;
  }

  /** Reads the newest page of the conversation. `undefined` if it can't be read, or the client was replaced. */
  async #newestPage(): Promise<ChatPage | undefined> {
    const { signal } = this.#over;
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        const page = await this.#client.messages?.({});
        if (signal.aborted) return undefined;
        // The server is reachable again, but no question would open the connection.
        if (pauseMs > FIRST_PAUSE_MS && this.#client.connection === "waiting") this.#client.reconnect?.();
        return page;
      } catch (error) {
        if (!mayPass(error)) return undefined;
        await this.#wakeUps.pause(pauseMs, signal).catch(() => {});
        if (this.#client.connection === "closed") return undefined;
      }
    }
    return undefined;
  }

  #note({ before }: ChatPage): void {
    this.#before = before;
    this.earlier.textContent = this.#views.conversation.strings.earlierMessages;
    this.earlier.hidden = before === null;
  }

  #draw({ messages }: ChatPage): void {
    for (const { messageId, versions } of messages) {
      if (versions !== undefined) this.#actions.underWay(messageId)?.showVersions(versions);
    }
    const news = messages.filter(({ messageId }) => !this.#known.has(messageId));
    const running = news.filter(({ status }) => status === "queued" || status === "streaming").slice(-1)[0];
    const last = this.#known.size === 0 ? messages.slice(-1)[0] : undefined;
    const add = () => {
      for (const message of news) if (message !== running) this.#add(message, message === last);
    };
    if (this.#known.size === 0) this.#views.conversation.addQuietly(add);
    else this.#views.conversation.addEarlier(add);
    if (running !== undefined) this.#follow(running);
    if (running?.versions !== undefined) this.#actions.underWay(running.messageId)?.showVersions(running.versions);
  }

  #add(message: ChatMessage, isLast: boolean): void {
    const exchange: Exchange = new Exchange(
      this.#views,
      new SaidAnswer(message),
      this.#actions.offersOf(() => exchange),
    );
    this.#known.set(message.messageId, exchange);
    exchange.restore(message, isLast && message.question !== "");
  }

  #follow(message: ChatQuestion): void {
    const answer = this.#client.follow?.(message);
    if (answer === undefined || this.#actions.isBusy()) return;
    this.note(message.messageId);
    this.#actions.show(answer);
  }

  async #addEarlier(): Promise<void> {
    const page = await this.#read({ before: this.#before ?? undefined });
    if (page === undefined) return;
    this.#note(page);
    this.#draw(page);
  }
}

/** An answer that has ended. */
class SaidAnswer implements ChatAnswer {
  readonly question: string;
  readonly messageId: string;
  readonly responseId: string;

  constructor({ question, messageId, responseId }: ChatMessage) {
    this.question = question;
    this.messageId = messageId;
    this.responseId = responseId;
  }

  stop(): void {}

  async *[Symbol.asyncIterator](): AsyncGenerator<never, void, void> {}
}
