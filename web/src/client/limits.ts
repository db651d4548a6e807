/** Every bound and interval of the client. Times are milliseconds. */
export const LIMITS = {
  /** How long a question waits for a WebSocket before it is asked by long-polling. */
  openPatienceMs: 2_000,
  /** The same once a WebSocket has failed: a blocked port should not cost every question two seconds. */
  reopenPatienceMs: 500,
  /** How long an attempt may go on in the background, to serve a later question. */
  openAttemptMs: 10_000,
  /** Connections lost in a row, without a delta between them, before an answer goes on by long-polling. */
  websocketFailures: 4,
  /** Failures in a row on long-polling before the answer is given up. */
  pollFailures: 6,
  /** Refusals in a row (quota, overload) before a question is given up: more than a take-over lasts. */
  refusals: 8,
  /** Half of what the first retry is spread over. */
  backoffBaseMs: 250,
  backoffCapMs: 8_000,
  /** How often the server is told what the reader really has. */
  ackIntervalMs: 1_000,
  /** Silence on a WebSocket, while an answer is due, before the connection is probed. */
  silenceMs: 15_000,
  /** How long a probe may stay unanswered before the connection is taken for dead. */
  probeMs: 5_000,
  /** Requests for missing deltas in a row, without progress, before the server is taken for broken. */
  recoveries: 3,
  /** How long `stop` waits for the server to confirm. */
  stopMs: 3_000,
  /** How long a poll asks the server to hold it: under the 29 s of API gateways. */
  pollTimeoutMs: 20_000,
  /** How long any call may take beyond what it asked the server for. */
  callTimeoutMs: 10_000,
  /** The least time between two polls that brought nothing. */
  emptyPollMs: 250,
  /** How long before its expiry a token is renewed. */
  renewTokenMs: 60_000,
} as const;
