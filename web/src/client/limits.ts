// Every bound and interval of the client. Times are milliseconds.

/** How long a question waits for a WebSocket before it is asked by HTTP. */
export const openPatienceMs = 2_000;
/** The same once a WebSocket has failed: a blocked port should not cost every question two seconds. */
export const reopenPatienceMs = 500;
/** How long an attempt may go on in the background, to serve a later question. */
export const openAttemptMs = 10_000;
/** Connections lost in a row, without a delta between them, before an answer goes on over the next transport. */
export const websocketFailures = 4;
export const sseFailures = 2;
/** Failures in a row on the last transport before the answer is given up: it is kept for as long without a reader. */
export const lastFailures = 14;
/** Refusals in a row (quota, overload) before a question is given up: more than a take-over lasts. */
export const refusals = 8;
/** What comes later than this is not waited for: who asks is told at once. */
export const longestWaitMs = 60_000;
/** Half of what the first retry is spread over. */
export const backoffBaseMs = 250;
export const backoffCapMs = 8_000;
/** So many failures don't lengthen the wait: a lost node's answers go on after some three seconds. */
export const backoffHeldFailures = 3;
/** How often the server is told what the reader really has. */
export const ackIntervalMs = 1_000;
/**
 * Silence on a WebSocket, while an answer is due, before a ping, and how long that may stay unanswered before the
 * connection is taken for dead. With the first retry that makes 5 s at most.
 */
export const silenceMs = 2_500;
export const pongMs = 2_000;
/** How late a timer is in a tab that has slept. */
export const sleptMs = 500;
/** Requests for missing deltas in a row, without progress, before the server is taken for broken. */
export const recoveries = 3;
/** Silence on an event stream before a poll looks whether there is anything; the next times, twice as long each. */
export const quietMs = 2_000;
/** So many such polls, and the stream is taken for dead: in that time the server would have sent a heartbeat. */
export const quietPolls = 4;
/** How much later than by a poll something may come over an event stream. */
export const heldBackMs = 500;
/** For how long a transport that holds things back is not used again. */
export const heldBackRestMs = 60_000;
/** How long `stop` waits for the server to confirm. */
export const stopMs = 3_000;
/** How long a poll asks the server to hold it: under the 29 s of API gateways. */
export const pollTimeoutMs = 20_000;
/** How long any call may take beyond what it asked the server for. */
export const callTimeoutMs = 10_000;
/** The least time between two polls that brought nothing. */
export const emptyPollMs = 250;
/** How long before its expiry a token is renewed. */
export const renewTokenMs = 60_000;
