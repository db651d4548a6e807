import type { Client, ConnectOptions } from "./api.ts";
import { EvenflowClient } from "./client.ts";

export type {
  Answer,
  AnswerEvent,
  AnswerListeners,
  AnswerParams,
  AnswerResult,
  AnswerState,
  AskOptions,
  Client,
  ClientEvents,
  ClientStorage,
  ConnectionState,
  ConnectOptions,
  FinishReason,
  Throttle,
  TransportName,
  Usage,
} from "./api.ts";
export {
  AnswerError,
  BusyError,
  ClosedError,
  ConnectionError,
  type ErrorBody,
  type EvenflowError,
  isEvenflowError,
  ProtocolError,
  RefusedError,
  ReplacedError,
} from "./errors.ts";

/** Begins a conversation, or goes on with the one before a reload; the connection is opened ahead of the first question. */
export function connect(options: ConnectOptions = {}): Client {
  const client = new EvenflowClient(options);
  void client.open();
  return client;
}
