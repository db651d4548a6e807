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

/** What the element tells the page, as bubbling `CustomEvent`s with these details. */
export interface EvenflowChatEvents {
  /** A question was asked. */
  "evenflow-ask": CustomEvent<{ readonly question: string }>;
  /** Something happened to its answer; at the moment at which it did, whatever the smoother does. */
  "evenflow-event": CustomEvent<ChatEvent>;
  /** All of the answer is on the screen, or it failed. */
  "evenflow-end": CustomEvent<null>;
}

/** An answer on its way, and what shows it. */
interface Current {
  readonly answer: ChatAnswer;
  readonly exchange: Exchange;
}

/** The parts of the element that have a text of their own. */
type Frame = Readonly<Record<"frame" | "log" | "scroller" | "dock" | "hint", HTMLElement>>;

/** After this time without any answer the server's address may be wrong, in milliseconds. */
const NO_ANSWER_MS = 8_000;

/** On a server that renders the page there are no elements, and the class is only a name. */
const HostElement = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * `<evenflow-chat>`: a conversation with an Evenflow server. Give it a `client`, and it asks, streams, stops and retries.
 * Slots: `welcome` (until the first question), `suggestions` (below the conversation), `details` (above the text box).
 * Attributes: `placeholder`; `lang`, by default the page's; `theme` (`light`, `dark`, or `auto` for the system's; without it the page's `color-scheme`); `maths` and `code-colours`, which each load a library once an answer needs it, unless they are `off`; `images`, which ones load by themselves; `url`, where the client's server is, so that the element can tell why it isn't reached. Its look follows the CSS custom properties `--evenflow-…` of styles/theme.css.
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
  /** Whether the server has answered anything: its address is right. */
  #hasAnswered = false;
  #isForbidden = false;
  #isAdvised = false;
  /** Whether the console has the warning that nothing answers. */
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
    // A region, so that nothing of the chat is outside of a landmark.
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
   * Texts that replace those of the language, which is the element's `lang`, or the page's. What is on the screen of a
   * conversation stays as it is.
   */
  get strings(): SomeStrings {
    return this.#ownStrings;
  }

  set strings(strings: SomeStrings | undefined) {
    this.#ownStrings = strings ?? {};
    this.#speak();
  }

  /**
   * Who answers; `undefined` until it is set. An answer that a reload has interrupted goes on at once. An answer that is on
   * its way from another client is left where it is, as one that is not whole; it is not stopped.
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

  /** Draws the diagrams of answers that begin from now on; `undefined`: they stay code. */
  get diagrams(): DrawDiagram | undefined {
    return this.#diagrams;
  }

  set diagrams(draw: DrawDiagram | undefined) {
    this.#diagrams = draw;
    this.#speak();
  }

  /** Whether an answer is on its way. */
  get isBusy(): boolean {
    return this.#current !== undefined;
  }

  /** The text of the last answer, as far as it has come. */
  get lastText(): string {
    return this.#views.conversation.lastText;
  }

  /** Puts the cursor into the text box. */
  override focus(): void {
    this.#composer.focus();
  }

  /** Asks, unless an answer is still on its way; returns whether it did. Throws when there is no `client` yet. */
  ask(question: string): boolean {
    if (this.#client === undefined) throw new Error("<evenflow-chat> has no client yet: set its property `client`");
    if (this.isBusy) return false;
    const parent = this.#history?.parent;
    void this.#show(parent === undefined ? this.#client.ask(question) : this.#client.ask(question, { parent }));
    return true;
  }

  /** Stops the answer that is on its way, if there is one. */
  stop(): void {
    this.#current?.answer.stop();
  }

  /** Where the client's server is, as far as that is known. */
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
    // While there is an answer, its own events say it better.
    if (this.isBusy || this.#isForbidden) return;
    this.#views.status.show(...connectionState(state, this.#strings));
    if (state === "waiting" && this.serverUrl !== undefined) this.#watch.start(this.serverUrl);
  }

  /** Tries to reach the server at once. The answer resumes, and no question is asked again. */
  #reconnect(): void {
    this.#client?.reconnect?.();
    if (!this.isBusy && this.#client !== undefined) this.#showConnection(this.#client.connection);
  }

  /** What a look at the server has found, while nothing is asked. */
  #showReach(reach: Reach): void {
    if (reach === "forbidden") this.#forbid();
    else if (reach === "unreachable") this.#views.status.showLost(this.#strings.unreachable);
    else this.#views.status.show(...connectionState("waiting", this.#strings));
  }

  /** Ends what would be tried in vain for a long time: this page's origin is not let in. */
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

  /** Where an answer has never been reached, finds out whether it ever can be. */
  async #doubt(current: Current, reason = ""): Promise<void> {
    const url = this.serverUrl;
    if (this.#wasReached) return;
    this.#doubtAddress(current, reason);
    if (url === undefined || (await reachOf(url)) !== "forbidden") return;
    if (this.#current === current) this.#forbid();
  }

  /** Shows after a while that the server's address may be wrong. It is still tried. */
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
    // What the server never had can be replaced by nothing where something else came after it.
    if (messageId === undefined && !this.#views.conversation.isLast(before.questionView)) return this.ask(question);
    before.pass();
    void this.#show(this.#client.ask(question, { replaces: messageId }), before);
    return true;
  }

  /** Reads the answer from the server before the model is called again: only its delivery may have failed. */
  #readOrAskAgain(before: Exchange): boolean {
    const { unread } = before;
    if (unread === undefined || this.#client?.follow === undefined) return this.#askAgain(before);
    if (this.isBusy) return false;
    before.pass();
    void this.#show(this.#client.follow(unread), before, (exchange) => this.#askAgain(exchange));
    return true;
  }

  /**
   * Shows an answer. `before`: the last exchange, if this is another try at it. `onGone`: called if the server has lost
   * it.
   */
  async #show(answer: ChatAnswer, before?: Exchange, onGone?: (exchange: Exchange) => void): Promise<void> {
    const { question } = answer;
    this.#watch.stop();
    this.#isForbidden = false;
    this.#composer.endEdit();
    this.#composer.setBusy(true); // first: what has the focus may go
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
    // Neither a rejected question nor what the reader has typed meanwhile is lost.
    if (exchange.isPutBack) this.#editing.editAgain(before, question);
    else if (mustChange && this.#composer.isEmpty) this.#editing.edit(exchange);
  }

  /** Lets go of an answer that is on its way. If `successor` is the same again, that takes its place. */
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
