import { Announcer } from "./announcer.ts";
import type { ChatAnswer, ChatClient, ChatMessage, ChatPage, ChatQuestion } from "./chat-client.ts";
import type { ConversationView } from "./conversation-view.ts";
import { Exchange } from "./exchange.ts";
import { button } from "./made.ts";
import type { Offers } from "./offers.ts";
import { StatusView } from "./status-view.ts";
import type { Views } from "./views.ts";

/** What the history asks of the element that it is shown in. */
export interface HistoryActions {
  /** What the reader may choose below an answer; `exchange` is asked for when they do. */
  offersOf(exchange: () => Exchange): Offers;
  /** Shows an answer that is on its way. */
  show(answer: ChatAnswer): void;
  /** Whether one is. */
  isBusy(): boolean;
}

/** What was said in a conversation before this page was loaded, or by others since: it is on the screen again. */
export class History {
  readonly #client: ChatClient;
  readonly #views: Views;
  readonly #actions: HistoryActions;
  /** Brings older messages; shown while there are any. */
  readonly earlier = button({ class: "quiet earlier", testId: "earlier", hidden: true }, () => this.#addEarlier());
  /** The messages that are on the screen. */
  readonly #known = new Set<string>();
  #before: string | null = null;
  #isMissing = false;
  #isOver = false;

  constructor(client: ChatClient, conversation: ConversationView, actions: HistoryActions) {
    this.#client = client;
    this.#actions = actions;
    // What is old is neither spoken nor a state.
    this.#views = { conversation, announcer: new Announcer(document.createElement("div")), status: new StatusView() };
  }

  /** Takes note of a message that is shown already. */
  note(messageId: string | undefined): void {
    if (messageId !== undefined) this.#known.add(messageId);
  }

  /** Shows what was said before, if there may be something: above what is there already. */
  async restore(): Promise<void> {
    if (this.#client.isResumed !== true) return;
    await this.#load((page) => this.#draw(page));
  }

  /** Begins to show what others ask. Returns what ends that, and everything else. */
  listen(): () => void {
    const lookAgain = () => {
      if (!document.hidden && this.#client.connection === "waiting") void this.catchUp();
    };
    document.addEventListener("visibilitychange", lookAgain);
    const end = this.#client.on("message", (message) => this.#onMessage(message));
    return () => {
      this.#isOver = true;
      document.removeEventListener("visibilitychange", lookAgain);
      end();
    };
  }

  /** Shows what others have said since, if there may be something. What is on its way is not disturbed. */
  async catchUp(): Promise<void> {
    if (this.#known.size === 0) return;
    this.#isMissing = this.#actions.isBusy();
    if (this.#isMissing) return;
    await this.#load((page) => {
      if (page.messages.every(({ messageId }) => this.#known.has(messageId))) return;
      this.#views.conversation.clear();
      this.#known.clear();
      this.#draw(page);
    });
  }

  /** An answer has ended: what was missed meanwhile can be shown. */
  async onIdle(): Promise<void> {
    if (this.#isMissing) await this.catchUp();
  }

  #onMessage(message: ChatQuestion & { readonly replaces: string | null }): void {
    if (this.#known.has(message.messageId)) return;
    if (this.#actions.isBusy() || message.replaces !== null) void this.catchUp();
    else this.#follow(message);
  }

  async #load(show: (page: ChatPage) => void, before?: string): Promise<void> {
    try {
      const page = await this.#client.messages?.({ before });
      if (page === undefined || this.#isOver) return;
      this.#before = page.before;
      this.earlier.textContent = this.#views.conversation.strings.earlierMessages;
      this.earlier.hidden = page.before === null;
      show(page);
    } catch {
      // The session is a new one by now, or the server can't be reached: what is on the screen stays.
    }
  }

  #draw({ messages }: ChatPage): void {
    const news = messages.filter(({ messageId }) => !this.#known.has(messageId));
    const running = news.findLast(({ status }) => status === "queued" || status === "streaming");
    const last = this.#known.size === 0 ? messages.at(-1) : undefined;
    const add = () => {
      for (const message of news) if (message !== running) this.#add(message, message === last);
    };
    if (this.#known.size === 0) this.#views.conversation.addQuietly(add);
    else this.#views.conversation.addEarlier(add);
    if (running !== undefined) this.#follow(running);
  }

  #add(message: ChatMessage, isLast: boolean): void {
    this.#known.add(message.messageId);
    const exchange: Exchange = new Exchange(
      this.#views,
      new SaidAnswer(message),
      this.#actions.offersOf(() => exchange),
    );
    exchange.restore(message, isLast && message.question !== "");
  }

  #follow(message: ChatQuestion): void {
    const answer = this.#client.follow?.(message);
    if (answer === undefined || this.#actions.isBusy()) return;
    this.#known.add(message.messageId);
    this.#actions.show(answer);
  }

  async #addEarlier(): Promise<void> {
    await this.#load((page) => this.#draw(page), this.#before ?? undefined);
  }
}

/** An answer of which nothing more comes. */
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
