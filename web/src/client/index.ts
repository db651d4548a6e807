import type { Client, ConnectOptions } from "./api.ts";

export type {
  Answer,
  AnswerEvent,
  AnswerListeners,
  AnswerResult,
  AnswerState,
  Client,
  ClientEvents,
  ClientStorage,
  ConnectionState,
  ConnectOptions,
  Throttle,
  TransportName,
} from "./api.ts";
export type { ErrorBody } from "./error-body.ts";
export {
  AnswerError,
  BusyError,
  ConnectionError,
  type EvenflowError,
  isEvenflowError,
  ProtocolError,
  RefusedError,
  ReplacedError,
} from "./errors.ts";
export type { FinishReason, Usage } from "./frames.ts";

/** Begins a conversation: opens the connection ahead of the first question. */
export declare function connect(options?: ConnectOptions): Client;
