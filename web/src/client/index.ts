import type { Client, ConnectOptions } from "./api.ts";
import { EvenflowClient } from "./client.ts";

export type {
  Answer,
  AnswerEvent,
  AnswerListeners,
  AnswerParams,
  AnswerPart,
  AnswerResult,
  AnswerState,
  AskOptions,
  Client,
  ClientEvents,
  ClientStorage,
  ConnectionState,
  ConnectOptions,
  FinishReason,
  HistoryBound,
  Message,
  MessagePage,
  OtherMessage,
  Share,
  ShareOptions,
  Throttle,
  ToolCall,
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

/**
 * Begins a conversation, or goes on with the one before a reload. In a page the connection is opened ahead of the first question; on a server,
 * which may make a client for each page that it renders, nothing is until something is asked.
 */
export function connect(options: ConnectOptions = {}): Client {
  const client = new EvenflowClient(options);
  if (globalThis.location) void client.open();
  return client;
}
