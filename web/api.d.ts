/** The ways by which an answer can travel, best first. */
declare type TransportName = "websocket" | "sse" | "long-poll";
/** The part of the browser's `Storage` that the client uses. */
declare interface ClientStorage {
    getItem(key: string): string | null;
    setItem(key: string, value: string): void;
}
declare interface ConnectOptions {
    /** Where the server is, without a slash at the end: `https://chat.example.com`. The page's own origin by default. */
    readonly url?: string | undefined;
    readonly tenant?: string | undefined;
    readonly agent?: string | undefined;
    /**
     * Where a session is opened, and its token renewed: `url` + `/session` by default. Where tenants have keys, an address of your own backend's,
     * which passes the request on to that with the tenant's key, and its answer back.
     */
    readonly sessionUrl?: string | undefined;
    /** The bearer token for that: a tenant's key, or your own backend's; or what fetches it. Asked for with every new token. */
    readonly key?: string | (() => string | Promise<string>) | undefined;
    /** The transports that may be used; all of them by default. Their order is always that of {@link TransportName}. */
    readonly transports?: readonly TransportName[] | undefined;
    /**
     * Where the session and the answer under way are kept, so that a reload goes on with them. The tab's `sessionStorage`
     * by default; `null` to keep nothing, so that each load is a new conversation. What is kept opens the session: let users who share a tab not
     * share it, nor two clients of one page with the same `url`, `tenant` and `agent`.
     */
    readonly storage?: ClientStorage | null | undefined;
}
/**
 * `connecting`: a connection is being opened. `open`: one stands, or the server was reached by HTTP. `waiting`: there is
 * none; another one is opened in a moment, or with the next question. `closed`: the client was closed.
 */
declare type ConnectionState = "connecting" | "open" | "waiting" | "closed";
/**
 * The server is busy, or a quota is spent: the question is sent again after `retryAfterMs` milliseconds. What takes more
 * than a minute, and a budget that is used up (`budget_exhausted`), is an error of the answer instead.
 */
declare interface Throttle {
    readonly retryAfterMs: number;
    /** The protocol's error code: `rate_limited`, `queue_full`, … */
    readonly code: string;
}
declare interface ClientEvents {
    readonly connection: ConnectionState;
    readonly transport: TransportName;
    readonly throttle: Throttle;
    /**
     * Somebody else has asked something in this conversation: {@link Client.follow} reads along. It is told while a WebSocket is open to the
     * same task; what was missed is in {@link Client.messages}.
     */
    readonly message: OtherMessage;
}
/** How an answer is to be made, by OpenAI's names; what is left out is the agent's, or the model's own. */
declare interface AnswerParams {
    readonly temperature?: number;
    readonly top_p?: number;
    readonly max_tokens?: number;
    readonly stop?: readonly string[];
    readonly seed?: number;
}
/** A message of the conversation, with its answer as far as it has come. */
declare interface Message {
    readonly messageId: string;
    readonly responseId: string;
    /** Empty where it is no longer kept. */
    readonly question: string;
    /**
     * The `messageId`s of all messages in this place, oldest first: this one, and those that it replaces or is replaced
     * by. Each is in another version of the conversation, which {@link Client.messages} reads `through` it.
     */
    readonly versions: readonly string[];
    /** `queued` and `streaming`: its answer is on its way, and can be had by {@link Client.follow}. */
    readonly status: "queued" | "streaming" | "completed" | "error" | "cancelled" | (string & {});
    readonly text: string;
    readonly parts: readonly AnswerPart[];
    readonly finishReason: FinishReason | null;
    /** What ended the answer before its time. */
    readonly error: ErrorBody | null;
}
/** Messages of the conversation, oldest first. */
declare interface MessagePage {
    readonly messages: readonly Message[];
    /** What to ask for older ones with; `null` where there are none. */
    readonly before: string | null;
}
/** What is shared, and with whom. */
declare interface ShareOptions {
    readonly responseId?: string | undefined;
    readonly ttlSeconds?: number | undefined;
    readonly name?: string | undefined;
    /** Whether the token shows the names of other readers. */
    readonly names?: boolean | undefined;
}
/** A token that reads, until `expiresAt` (ISO 8601), and the server's addresses. */
declare interface Share {
    readonly token: string;
    readonly expiresAt: string;
    readonly httpUrl: string;
    readonly websocketUrl: string;
}
/** A message that was sent elsewhere: by another tab, or another device. */
declare interface OtherMessage {
    readonly messageId: string;
    readonly responseId: string;
    readonly question: string;
    /** The `messageId` of the message that it replaces, if there is one. */
    readonly replaces: string | null;
    /** The `messageId` of the last message of the older version that it continues, if it does. */
    readonly parent: string | null;
}
/** What goes with a question. */
declare interface AskOptions {
    readonly signal?: AbortSignal | undefined;
    readonly params?: AnswerParams | undefined;
    /** After so many milliseconds the model is stopped; its text stays. */
    readonly timeoutMs?: number | undefined;
    /** Goes on to the model's server: at most 16 names of 64 characters, with values of 512. */
    readonly metadata?: Readonly<Record<string, string>> | undefined;
    /**
     * The `messageId` of any message of the conversation, which this one replaces in a new version. The model receives
     * neither that message nor what came after it; both versions are kept.
     */
    readonly replaces?: string | undefined;
    /**
     * The `messageId` of the last message of an older version, to continue that. By default the newest one is continued.
     */
    readonly parent?: string | undefined;
}
/** A question that was not asked yet, which may be empty; `replaces` and `parent` as in {@link AskOptions}. */
declare interface Draft {
    readonly text: string;
    readonly replaces?: string | undefined;
    readonly parent?: string | undefined;
}
/** A conversation with an Evenflow server: one question at a time, each answer delivered whole and exactly once. */
declare interface Client {
    /**
     * Asks a question. Lost connections, a busy server and an expired token are dealt with on the way. To abort `signal`
     * is to {@link Answer.stop}. While another answer is being delivered the new one fails with a `BusyError`.
     */
    ask(text: string, options?: AskOptions): Answer;
    /**
     * The answer that a reload of the page has interrupted, until it ends or something else is asked. It is read again
     * from its beginning, and only once it is used: iterated, listened to, awaited by `done` or stopped.
     */
    readonly resumable: Answer | null;
    /** Whether the session is one of before: something may have been asked in it already. */
    readonly isResumed: boolean;
    /**
     * The newest messages of the conversation, or the newest `before` one of them: 20, or `limit`. They are those of the
     * newest version, or of the newest one that goes `through` a message. Rejects with an `EvenflowError`.
     */
    messages(options?: {
        readonly before?: string | undefined;
        readonly limit?: number | undefined;
        readonly through?: string | undefined;
    }): Promise<MessagePage>;
    /**
     * What the reader has typed and not asked yet, for the page to keep over a reload. It is stored with the session, in
     * {@link ConnectOptions.storage}. `null` for nothing.
     */
    draft: Draft | null;
    /** The answer to a message that this client did not send, from its beginning. Like {@link resumable} it is read once it is used. */
    follow(message: Pick<Message, "messageId" | "responseId" | "question">): Answer;
    /**
     * A token with which somebody else reads the conversation as it goes on, or only `responseId`, and does nothing else. It is valid for an hour,
     * or `ttlSeconds`, at most a day. `name` is who reads, for those who ask the server. Rejects with an `EvenflowError`.
     */
    share(options?: ShareOptions): Promise<Share>;
    /**
     * Ends the session: its answers are stopped, and everything that the server keeps of it is deleted. What is asked next begins a new one.
     * Rejects with an `EvenflowError`.
     */
    end(): Promise<void>;
    /** How the answer travels, or the last one did; `null` before the first connection. */
    readonly transport: TransportName | null;
    readonly connection: ConnectionState;
    /** Questions to begin with, as the server offers them; none before it was reached. */
    readonly suggestions: readonly string[];
    /** Calls `listener` whenever `event` happens. Returns what ends that. */
    on<E extends keyof ClientEvents>(event: E, listener: (detail: ClientEvents[E]) => void): () => void;
    /**
     * Tries to reach the server at once, for a reader who does not want to wait. The answer resumes, and no question is
     * asked again. The client does this by itself whenever the network may be back, or the reader.
     */
    reconnect(): void;
    /** Leaves: closes the connection. The answer under way fails with a `ClosedError`; the model is not stopped. */
    close(): void;
}
/**
 * `asking`: the server has not begun to answer. `streaming`; `paused`: by {@link Answer.pause}. The others are final:
 * `completed`, `stopped` by the reader or because nobody read, `failed`.
 */
declare type AnswerState = "asking" | "streaming" | "paused" | "completed" | "stopped" | "failed";
/** Why an answer ended. */
declare type FinishReason = "stop" | "length" | "budget" | "content_filter" | "cancelled" | "abandoned" | (string & {});
/** What bounds the conversation that the model receives: a limit of the server, or the model's context. */
declare type HistoryBound = "server" | "model" | (string & {});
/** Tokens that an answer cost. */
declare interface Usage {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
}
/** One thing of an answer, as far as it has come. */
declare type AnswerPart = {
    readonly type: "text";
    readonly text: string;
}
/** What the model has thought before it went on. */
 | {
    readonly type: "reasoning";
    readonly text: string;
} | {
    readonly type: "refusal";
    readonly text: string;
} | ToolCall
/** Where something in the answer is from; one of both may be empty. `url` is as the model's server gave it: check it before you link it. */
 | {
    readonly type: "source";
    readonly url: string;
    readonly title: string;
}
/** Anything else, by its name. */
 | {
    readonly type: "data";
    readonly name: string;
    readonly value: unknown;
};
/** A tool that the model has called. */
declare interface ToolCall {
    readonly type: "tool";
    /** The number of the call in the answer. */
    readonly call: number;
    readonly id: string;
    readonly name: string;
    /** JSON for most tools; it is whole once `isComplete`. */
    readonly arguments: string;
    readonly isComplete: boolean;
    /** What the tool gave, once it has. */
    readonly result?: string;
}
/** How an answer ended. */
declare interface AnswerResult {
    readonly text: string;
    readonly parts: readonly AnswerPart[];
    /**
     * `cancelled` for an answer that its reader stopped, `abandoned` for one that the server stopped for lack of readers.
     */
    readonly finishReason: FinishReason;
    readonly lastIndex: number;
    readonly usage: Usage | null;
    /** The answer came from a fallback, not from the model that was asked. */
    readonly degraded: boolean;
}
/** What happens to an answer, in order. The last event is `completed`, unless an `EvenflowError` ends it. */
declare type AnswerEvent = 
/** The text has grown by `text`, which is that of the indexes `from` to `index`. */
{
    readonly type: "delta";
    readonly text: string;
    readonly from: number;
    readonly index: number;
}
/** The part at `position` of {@link Answer.parts} is new, or has grown to this. Only of text a `delta` tells instead. */
 | {
    readonly type: "part";
    readonly part: AnswerPart;
    readonly position: number;
    readonly from: number;
    readonly index: number;
}
/** Only the first `keep` characters (UTF-16 units) of the text and these `parts` still stand; what replaces the rest follows. */
 | {
    readonly type: "restarted";
    readonly keep: number;
    readonly parts: readonly AnswerPart[];
}
/**
 * The server has the question. Comes again if the model has refused the conversation as too long and receives less.
 */
 | {
    readonly type: "accepted";
    readonly responseId: string;
    readonly messageId: string;
    /** The number of the conversation's oldest messages that the model does not receive, if known. */
    readonly historyDropped?: number;
    readonly historyDroppedBy?: HistoryBound;
}
/** How the answer travels from now on. `fallback`: because nothing better could be had. */
 | {
    readonly type: "transport";
    readonly transport: TransportName;
    readonly fallback: boolean;
}
/** The answer waits for its model; the next one has the position 1. `null`: nobody knows how long. */
 | {
    readonly type: "queued";
    readonly position: number;
    readonly expectedSeconds: number | null;
}
/** This reader is behind; the next pieces come joined. */
 | {
    readonly type: "lag";
    readonly behindDeltas: number;
    readonly behindMs: number;
}
/** The server is busy; the question is sent again in `delayMs`. */
 | {
    readonly type: "waiting";
    readonly delayMs: number;
    readonly code: string;
}
/** The connection was lost, or never opened, for this `reason`; it is opened again in `delayMs`. */
 | {
    readonly type: "reconnecting";
    readonly delayMs: number;
    readonly reason: string;
}
/** The connection is back, and the answer goes on. */
 | {
    readonly type: "resumed";
}
/** A poll was answered, and what it has brought is told. */
 | {
    readonly type: "polled";
} | ({
    readonly type: "completed";
} & Omit<AnswerResult, "text" | "parts">);
/** What {@link Answer.on} tells: every event by its type, and `state` and `error` besides. */
declare type AnswerListeners = {
    readonly [E in AnswerEvent["type"]]: Extract<AnswerEvent, {
        type: E;
    }>;
} & {
    readonly state: AnswerState;
    readonly error: EvenflowError;
};
/**
 * One answer. It is delivered whether or not anybody iterates it, and every iteration is given all of its events, however
 * late it begins. It ends with `completed`, or throws the `EvenflowError` that ended the answer.
 */
declare interface Answer extends AsyncIterable<AnswerEvent> {
    /** The client's own name for the question. */
    readonly messageId: string;
    readonly question: string;
    /** `null` until the server has the question. */
    readonly responseId: string | null;
    /** All of the text that was delivered so far. */
    readonly text: string;
    /** The same with all that is no text, in order. */
    readonly parts: readonly AnswerPart[];
    readonly state: AnswerState;
    /** The end of the answer; rejects with the `EvenflowError` that ended it. */
    readonly done: Promise<AnswerResult>;
    /** Calls `listener` whenever `event` happens. Returns what ends that. */
    on<E extends keyof AnswerListeners>(event: E, listener: (detail: AnswerListeners[E]) => void): () => void;
    /** Stops the model. Resolves when the answer has ended, which it does even if the server cannot be reached. */
    stop(): Promise<void>;
    /** Holds delivery: nothing happens to the answer until {@link Answer.resume}. */
    pause(): void;
    resume(): void;
}

/** The one error shape of the protocol (section 6), as it is on the wire. */
declare interface ErrorBody {
    readonly type: string;
    readonly code: string;
    /** For people; may change between releases. */
    readonly message: string;
    readonly param?: string | undefined;
    /** How long to wait before trying again, in milliseconds. */
    readonly retry_after_ms?: number | undefined;
    /** With `causal_violation`: the `previous_message_id` that the server expects. */
    readonly expected?: string | null | undefined;
}
declare abstract class ClientError extends Error {
    abstract readonly kind: string;
}
/** Says what the server has said. */
declare abstract class ServerError extends ClientError {
    readonly body: ErrorBody;
    constructor(body: ErrorBody);
}
/** The server refused a call or a message. Nothing was generated for it. */
declare class RefusedError extends ServerError {
    readonly kind = "refused";
    /** True for a quota or an overload: the same call may succeed later, where the server says when after `body.retry_after_ms`. */
    get isTemporary(): boolean;
}
/** The answer began and then ended with an error. What was delivered before it is still good. */
declare class AnswerError extends ServerError {
    readonly kind = "answer";
}
/** The server could not be reached, or a connection to it was lost. */
declare class ConnectionError extends ClientError {
    readonly kind = "connection";
    /** When to try again, in milliseconds from now, where the server has said so. */
    readonly retryAfterMs: number | undefined;
    constructor(message: string, retryAfterMs?: number);
}
/** The other side does not speak the protocol: trying again will not help. */
declare class ProtocolError extends ClientError {
    readonly kind = "protocol";
}
/** A newer connection of the same session asked to be the only one. */
declare class ReplacedError extends ClientError {
    readonly kind = "replaced";
    constructor();
}
/** `ask` was called while an answer was still being delivered. */
declare class BusyError extends ClientError {
    readonly kind = "busy";
    constructor();
}
/** The client was closed: while the answer was being delivered, or before it was asked for. */
declare class ClosedError extends ClientError {
    readonly kind = "closed";
    constructor();
}
/** Everything that the client throws, told apart by `kind`. */
declare type EvenflowError = RefusedError | AnswerError | ConnectionError | ProtocolError | ReplacedError | BusyError | ClosedError;
/** Whether `error` is one of the client's own errors. */
declare function isEvenflowError(error: unknown): error is EvenflowError;

/**
 * Begins a conversation, or goes on with the one before a reload. In a page the connection is opened ahead of the first question; on a server,
 * which may make a client for each page that it renders, nothing is until something is asked.
 */
declare function connect(options?: ConnectOptions): Client;

export { connect, Answer, AnswerError, AnswerEvent, AnswerListeners, AnswerParams, AnswerPart, AnswerResult, AnswerState, AskOptions, BusyError, Client, ClientEvents, ClientStorage, ClosedError, ConnectOptions, ConnectionError, ConnectionState, Draft, ErrorBody, EvenflowError, FinishReason, HistoryBound, Message, MessagePage, OtherMessage, ProtocolError, RefusedError, ReplacedError, Share, ShareOptions, Throttle, ToolCall, TransportName, Usage, isEvenflowError };
