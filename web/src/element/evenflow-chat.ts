import { Announcer } from "./announcer.ts";
import type { ChatAnswer, ChatClient, ChatConnection, ChatEvent } from "./chat-client.ts";
import { Composer } from "./composer.ts";
import { isOfComposition } from "./composition.ts";
import { ConversationView } from "./conversation-view.ts";
import { Editing } from "./editing.ts";
import { inWords, ORIGIN_NOT_ALLOWED } from "./error-codes.ts";
import { Exchange } from "./exchange.ts";
import type { DrawDiagram } from "./extras/diagrams.ts";
import { History } from "./history.ts";
import { made } from "./made.ts";
import { imagePolicyOf } from "./markdown/images.ts";
import type { Offers } from "./offers.ts";
import { isGone } from "./plain-language.ts";
import { advise, adviseOfAddress, type Reach, reachOf, ServerWatch } from "./server-watch.ts";
import { connectionState, StatusView } from "./status-view.ts";
import { directionOf, languageAround, type SomeStrings, type Strings, stringsIn } from "./strings.ts";
import { styleSheet } from "./style-sheet.ts";
import type { Views } from "./views.ts";

/** The events of the element: bubbling `CustomEvent`s with these details. */
export interface EvenflowChatEvents {
  /** A question was asked. */
  "evenflow-ask": CustomEvent<{ readonly question: string }>;
  /** An event of its answer, when it arrives: the smoother does not delay it. */
  "evenflow-event": CustomEvent<ChatEvent>;
  /** All of the answer is on the screen, or it failed. */
  "evenflow-end": CustomEvent<null>;
}

/** A running answer, and what shows it. */
interface Current {
  readonly answer: ChatAnswer;
  readonly exchange: Exchange;
}

/** The parts of the element that have their own texts. */
type Frame = Readonly<Record<"frame" | "log" | "scroller" | "dock" | "hint", HTMLElement>>;

/** After this time without an answer the server's address may be wrong, in milliseconds. */
const NO_ANSWER_MS = 8_000;

/** During server-side rendering there are no elements, and the class is only a name. */
const HostElement = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * `<evenflow-chat>`: a conversation with an Evenflow server. With a `client` it asks, streams, stops and retries.
 * Slots: `welcome` (until the first question), `suggestions` (below the conversation), `details` (above the text box).
 * Attributes: `placeholder`; `lang`, by default the page's; `theme`: `light`, `dark`, or `auto` for the system's, by
 * default the page's `color-scheme`; `maths` and `code-colours`: `off` prevents loading that library; `images`: which
 * ones load automatically; `url`: the client's server, which lets the element explain why it isn't reached.
 * The CSS custom properties `--evenflow-…` of styles/theme.css change its look.
 */
export class EvenflowChat extends HostElement {
  static readonly observedAttributes = ["placeholder", "maths", "code-colours", "images", "lang"];

  readonly #views: Views;
  readonly #frame: Frame;
  #ownStrings: SomeStrings = {};
  readonly #composer = new Composer({
    ask: (question) => this.#client !== undefined && this.#askOrEdit(question),
    stop: () => this.stop(),
    endEdit: () => this.#editing.end(),
    type: (text) => this.#editing.keep(text),
  });
  readonly #editing = new Editing(this.#composer, () => this.isBusy);
  readonly #welcome = made("slot", { attributes: { name: "welcome" } });
  readonly #watch = new ServerWatch((reach) => this.#showReach(reach));
  #client: ChatClient | undefined;
  #diagrams: DrawDiagram | undefined;
  #current: Current | undefined;
  #history: History | undefined;
  readonly #earlier = made("div", { class: "earlier-place" });
  #wasReached = false;
  /** Whether the server has sent any response, so that its address is right. */
  #hasAnswered = false;
  #isForbidden = false;
  #isAdvised = false;
  /** Whether the console has the warning that the server does not respond. */
  #isDoubted = false;
  #unsubscribe: (() => void)[] = [];
  readonly #savePosition = (): void => this.#views.conversation.position.save();
  readonly #lookAgain = (): void => this.#history?.lookAgain();

  constructor() {
    super();
    const log = made("div", { class: "conversation", attributes: { role: "log" } });
    const scroller = made(
      "div",
      { class: "scroller", attributes: { tabindex: "0", role: "region" } },
      made(
        "div",
        { class: "column" },
        this.#welcome,
        this.#earlier,
        log,
        made("slot", { attributes: { name: "suggestions" } }),
      ),
    );
    const announcements = made("div", { class: "visually-hidden", attributes: { "aria-live": "polite" } });
    const status = new StatusView(() => this.#reconnect());
    const hint = made("p", { class: "hint" });
    const below = made("div", { class: "below" }, status.element, status.reconnect, hint);
    const details = made("slot", { attributes: { name: "details" } });
    const conversation = new ConversationView(scroller, log);
    // A region, so that all of the chat is inside a landmark.
    const dock = made(
      "section",
      { class: "dock" },
      conversation.toEnd,
      made("div", { class: "column" }, details, this.#composer.element, below),
    );
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [styleSheet()];
    const frame = made("div", { class: "frame" }, scroller, announcements, dock);
    root.append(frame);
    this.#frame = { frame, log, scroller, dock, hint };
    this.#views = {
      announcer: new Announcer(announcements),
      conversation,
      status,
    };
    status.show("connecting");
    this.#speak();
    this.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !isOfComposition(event)) this.stop();
    });
  }

  connectedCallback(): void {
    this.#speak();
    addEventListener("pagehide", this.#savePosition);
    document.addEventListener("visibilitychange", this.#lookAgain);
  }

  disconnectedCallback(): void {
    removeEventListener("pagehide", this.#savePosition);
    document.removeEventListener("visibilitychange", this.#lookAgain);
    this.#watch.stop();
  }

  attributeChangedCallback(): void {
    this.#speak();
  }

  /**
   * Texts that replace those of the language, which is the element's `lang`, or the page's. Texts on the screen
   * do not change.
   */
  get strings(): SomeStrings {
    return this.#ownStrings;
  }

  set strings(strings: SomeStrings | undefined) {
    this.#ownStrings = strings ?? {};
    this.#speak();
  }

  /**
   * The client; `undefined` until it is set. An answer that a reload interrupted resumes at once. A running answer of
   * the earlier client stays on the screen, marked incomplete; it is not stopped.
   */
  get client(): ChatClient | undefined {
    return this.#client;
  }

  set client(client: ChatClient) {
    if (client === this.#client) return;
    for (const end of this.#unsubscribe) end();
    this.#client = client;
    this.#unsubscribe = [client.on("connection", (state) => this.#showConnection(state))];
    this.#wasReached = this.#isForbidden = this.#isDoubted = false;
    this.#hasAnswered = client.isResumed === true;
    this.#leave(client.resumable);
    this.#showConnection(client.connection);
    const history = this.#newHistory(client);
    this.#history = history;
    const restored = history.restore(client.draft?.parent);
    this.#editing.begin(client, history);
    if (client.resumable !== null) void this.#show(client.resumable);
    // The earlier conversation is about to be shown.
    this.#welcome.hidden ||= client.isResumed === true;
    void restored.then(() => {
      if (this.#history !== history) return;
      this.#welcome.hidden = !this.#views.conversation.isEmpty;
      this.#views.conversation.position.load();
      this.#editing.resume();
    });
  }

  /** Renders the diagrams of later answers; `undefined`: they stay code. */
  get diagrams(): DrawDiagram | undefined {
    return this.#diagrams;
  }

  set diagrams(draw: DrawDiagram | undefined) {
    this.#diagrams = draw;
    this.#speak();
  }

  /** Whether an answer is running. */
  get isBusy(): boolean {
    return this.#current !== undefined;
  }

  /** The source of the last answer so far. */
  get lastText(): string {
    return this.#views.conversation.lastText;
  }

  /** Puts the cursor into the text box. */
  override focus(): void {
    this.#composer.focus();
  }

  /** Asks, unless an answer is running; returns whether it did. Throws when there is no `client` yet. */
  ask(question: string): boolean {
    if (this.#client === undefined) throw new Error("<evenflow-chat> has no client yet: set its property `client`");
    if (this.isBusy) return false;
    const parent = this.#history?.parent;
    void this.#show(parent === undefined ? this.#client.ask(question) : this.#client.ask(question, { parent }));
    return true;
  }

  /** Stops the running answer, if there is one. */
  stop(): void {
    this.#current?.answer.stop();
  }

  /** The address of the client's server, if known. */
  protected get serverUrl(): string | undefined {
    return this.getAttribute("url")?.replace(/\/$/, "");
  }

  get #strings(): Strings {
    return this.#views.conversation.strings;
  }

  /** Reads the attributes. All texts are in the language of `lang`, or of the page. */
  #speak(): void {
    const language = languageAround(this);
    const strings = stringsIn(language, this.#ownStrings);
    const { conversation, announcer, status } = this.#views;
    conversation.extras = {
      maths: this.getAttribute("maths") !== "off",
      codeColours: this.getAttribute("code-colours") !== "off",
      images: imagePolicyOf(this.getAttribute("images")),
      diagrams: this.#diagrams,
      strings,
    };
    announcer.strings = status.strings = this.#composer.strings = strings;
    this.#composer.placeholder = this.getAttribute("placeholder") ?? strings.placeholder;
    const { frame, log, scroller, dock, hint } = this.#frame;
    frame.dir = directionOf(language) ?? "";
    log.setAttribute("aria-label", strings.conversation);
    scroller.setAttribute("aria-label", strings.conversationSoFar);
    dock.setAttribute("aria-label", strings.yourMessage);
    hint.textContent = strings.hint;
  }

  #showConnection(state: ChatConnection): void {
    this.#hasAnswered ||= state === "open";
    this.#watch.stop();
    // While an answer is running, its own events describe the connection better.
    if (this.isBusy || this.#isForbidden) return;
    this.#views.status.show(...connectionState(state, this.#strings));
    if (state === "waiting" && this.serverUrl !== undefined) this.#watch.start(this.serverUrl);
  }

  /** Tries to reach the server at once. The answer resumes, and no question is asked again. */
  #reconnect(): void {
    this.#client?.reconnect?.();
    if (!this.isBusy && this.#client !== undefined) this.#showConnection(this.#client.connection);
  }

  /** Shows the result of a probe of the server, while no answer is running. */
  #showReach(reach: Reach): void {
    if (reach === "forbidden") this.#forbid();
    else if (reach === "unreachable") this.#views.status.showLost(this.#strings.unreachable);
    else this.#views.status.show(...connectionState("waiting", this.#strings));
  }

  /** Stops retrying, since the server does not allow this page's origin. */
  #forbid(): void {
    if (this.#current !== undefined) {
      const { answer, exchange } = this.#current;
      answer.stop();
      exchange.forbid();
      this.#end();
    } else this.#views.conversation.addError(inWords(ORIGIN_NOT_ALLOWED, this.#strings));
    this.#views.status.show("error", this.#strings.notAllowed);
    if (!this.#isAdvised && this.serverUrl !== undefined) advise(this.serverUrl);
    this.#isAdvised = this.#isForbidden = true;
  }

  /** If the server was never reached, finds out whether it can be. */
  async #doubt(current: Current, reason = ""): Promise<void> {
    const url = this.serverUrl;
    if (this.#wasReached) return;
    this.#doubtAddress(current, reason);
    if (url === undefined || (await reachOf(url)) !== "forbidden") return;
    if (this.#current === current) this.#forbid();
  }

  /** Shows after a while that the server's address may be wrong. The client still retries. */
  #doubtAddress({ exchange }: Current, reason: string): void {
    const isEarly = performance.now() - exchange.askedAt < NO_ANSWER_MS;
    if (isEarly || this.#hasAnswered || navigator.onLine === false) return;
    this.#views.status.showLost(this.#strings.nothingAnswers);
    if (!this.#isDoubted) adviseOfAddress(this.serverUrl, reason);
    this.#isDoubted = true;
  }

  #newHistory(client: ChatClient): History {
    const history = new History(client, this.#views.conversation, {
      offersOf: (exchange) => this.#offersOf(exchange),
      show: (answer) => void this.#show(answer),
      underWay: (messageId) => (this.#current?.answer.messageId === messageId ? this.#current?.exchange : undefined),
      isBusy: () => this.isBusy,
      keepVersion: () => this.#editing.keep(),
    });
    this.#earlier.replaceChildren(history.earlier);
    this.#unsubscribe.push(history.listen());
    return history;
  }

  #offersOf(exchange: () => Exchange): Offers {
    return {
      again: () => this.#readOrAskAgain(exchange()),
      edit: () => this.#editing.edit(exchange()),
      goOn: () => this.ask(this.#strings.goOnQuestion),
      select: (messageId) => this.#select(exchange(), messageId),
    };
  }

  #askOrEdit(question: string): boolean {
    const { shown } = this.#editing;
    return shown === undefined ? this.ask(question) : this.#askAgain(shown, question);
  }

  #select(exchange: Exchange, messageId: string): boolean {
    if (this.isBusy || this.#history === undefined) return false;
    this.#composer.endEdit();
    void this.#history.select(messageId, exchange.questionView.element).then((shown) => {
      if (shown === undefined) return;
      shown.questionView.focusSwitch();
      this.#views.announcer.say(`${shown.questionView.place}.`);
    });
    return true;
  }

  #askAgain(before: Exchange, question = before.question): boolean {
    if (this.#client === undefined || this.isBusy) return false;
    const { messageId } = before;
    // The server doesn't have this question, so it can't be replaced, unless it is the last one.
    if (messageId === undefined && !this.#views.conversation.isLast(before.questionView)) return this.ask(question);
    before.pass();
    void this.#show(this.#client.ask(question, { replaces: messageId }), before);
    return true;
  }

  /** Reads the answer from the server before the model is called again, since only its delivery may have failed. */
  #readOrAskAgain(before: Exchange): boolean {
    const { unread } = before;
    if (unread === undefined || this.#client?.follow === undefined) return this.#askAgain(before);
    if (this.isBusy) return false;
    before.pass();
    void this.#show(this.#client.follow(unread), before, (exchange) => this.#askAgain(exchange));
    return true;
  }

  /**
   * Shows an answer. `before`: the last exchange, if this is another attempt at it. `onGone`: called if the server no
   * longer has it.
   */
  async #show(answer: ChatAnswer, before?: Exchange, onGone?: (exchange: Exchange) => void): Promise<void> {
    const { question } = answer;
    this.#watch.stop();
    this.#isForbidden = false;
    this.#composer.endEdit();
    this.#composer.setBusy(true); // first: it may move the focus
    this.#views.conversation.setBusy(true);
    this.#welcome.hidden = true;
    const last = this.#history?.last;
    this.#history?.note(answer.messageId);
    const offers = this.#offersOf(() => exchange);
    const exchange: Exchange = new Exchange(this.#views, answer, offers, before);
    const current = { answer, exchange };
    this.#current = current;
    this.#tell("evenflow-ask", { question });
    let mustChange = false;
    try {
      for await (const event of answer) {
        if (this.#current !== current) return;
        if (event.type === "accepted") this.#history?.noteLast(answer.messageId);
        this.#tell("evenflow-event", event);
        await exchange.show(event);
        this.#wasReached ||= exchange.wasReached;
        if (event.type === "reconnecting") void this.#doubt(current, event.reason);
      }
    } catch (error) {
      if (this.#current !== current) return;
      if (onGone && isGone(error)) {
        this.#current = undefined;
        return onGone(exchange);
      }
      mustChange = await exchange.fail(error);
      if (exchange.isPutBack) this.#history?.putBack(last);
    }
    if (this.#current !== current) return;
    this.#end();
    if (answer.responseId !== null) return;
    // Keep a rejected question, and what the reader has typed meanwhile.
    if (exchange.isPutBack) this.#editing.editAgain(before, question);
    else if (mustChange && this.#composer.isEmpty) this.#editing.edit(exchange);
  }

  /** Abandons a running answer. If `successor` is the same question again, it replaces the exchange. */
  #leave(successor: ChatAnswer | null): void {
    if (this.#current === undefined) return;
    const { answer, exchange } = this.#current;
    if (answer.question === successor?.question) exchange.remove();
    else exchange.leave();
    this.#end();
  }

  #end(): void {
    this.#current = undefined;
    this.#composer.setBusy(false);
    this.#views.conversation.setBusy(false);
    this.#tell("evenflow-end", null);
    this.#views.conversation.follow();
    void this.#history?.onIdle();
  }

  #tell(name: keyof EvenflowChatEvents, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

declare global {
  interface HTMLElementTagNameMap {
    "evenflow-chat": EvenflowChat;
  }
  interface HTMLElementEventMap extends EvenflowChatEvents {}
}
