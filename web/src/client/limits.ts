// Every bound and interval of the client. Times are milliseconds.

/** How long a question waits for a WebSocket before it is asked by HTTP. */
export const openPatienceMs = 2_000;
/** The same once a WebSocket has failed: a blocked port should not cost every question two seconds. */
export const reopenPatienceMs = 500;
/** How long an attempt may go on in the background, to serve a later question. */
export const openAttemptMs = 10_000;
/** Tries in a row that brought nothing, before an answer goes on over the next transport, if HTTP reaches the server. */
export const websocketFailures = 3;
export const sseFailures = 2;
/** So many handshakes without an answer, begun within the time that Firefox keeps them, and HTTP is asked first; so many at most. */
export const hungHandshakes = 2;
export const mostHungHandshakes = 4;
export const hungHandshakeMs = 300_000;
/** Refusals in a row (quota, overload) before a question that was never accepted is given up: more than a take-over lasts. */
export const refusals = 8;
/** What comes later than this is not waited for: who asks is told at once. For an answer it is asked again by then. */
export const longestWaitMs = 60_000;
/** Half of what the first retry is spread over. */
export const backoffBaseMs = 250;
export const backoffCapMs = 8_000;
/** So many failures don't lengthen the wait: a lost node's answers go on after some three seconds. */
export const backoffHeldFailures = 3;
/**
 * The longest pause between two tries at a server that is out of reach, counted from the beginning of the first one. With
 * full jitter the next try begins 1.6 s after the network is back, or sooner, in 95 of 100 cases.
 */
export const probeCapMs = 2_000;
/** The same, and up to twice that, in a hidden tab, without a network, and after a long time. */
export const slowProbeMs = 5_000;
/** A hidden tab tries so often as any other: a lost node's answers go on by then. */
export const hiddenFastProbes = 4;
/** After so long it is tried seldom. */
export const fastProbesMs = 600_000;
/**
 * How long a try may be without an answer. TCP itself tries again after 1, 3 and 7 s: what may have gone into a black hole
 * is left for a fresh try before that takes long. Every third one has twice as long, for the sake of slow lines.
 */
export const probeMs = 2_000;
export const longProbeEvery = 3;
/** How long something may be silent, or a try go on, when a wake-up comes: then it is not trusted. */
export const doubtMs = 100;
/** So many calls are made at most for one that is answered at once, and so far apart. */
export const hedges = 3;
export const hedgeMs = 600;
/** How often the server is told what the reader really has. */
export const ackIntervalMs = 1_000;
/**
 * Silence on a WebSocket, while an answer is due, before a ping, and how long that may stay unanswered before the
 * connection is taken for dead. With the first retry that makes 5 s at most.
 */
export const silenceMs = 2_500;
export const pongMs = 2_000;
/**
 * Silence in the middle of a text that comes before a ping, and how long that may stay unanswered before the next connection is
 * opened beside this one.
 */
export const flowSilenceMs = 1_000;
export const flowPongMs = 500;
/** How often that is doubled: what falls silent again and again before it has brought anything may be slow instead. */
export const pongDoublings = 3;
/** How late a timer is in a tab that has slept. */
export const sleptMs = 500;
/** Silence of a call by HTTP before a probe tells whether the server can be reached; the next ones are as far apart as the other. */
export const callSilenceMs = 2_500;
export const longCallSilenceMs = 10_000;
/** Silence of a stream beside which the next one has been opened already: a server sends heartbeats more often. */
export const longSilenceMs = 20_000;
/** Requests for missing deltas in a row, without progress, before the server is taken for broken. */
export const recoveries = 3;
/** Silence on an event stream before a poll looks whether there is anything; the next times, twice as long each. */
export const quietMs = 2_000;
/** The same in the middle of a text that comes. */
export const flowQuietMs = 1_000;
/** So many such polls, and the stream is taken for dead: in that time the server would have sent a heartbeat. */
export const quietPolls = 4;
/** How much later than by a poll something may come over an event stream. */
export const heldBackMs = 500;
/** The same before it has begun: what TCP sends again after 3 s is due by then. */
export const headMs = 1_500;
/** For how long a transport that holds things back is not used again. */
export const heldBackRestMs = 60_000;
/** How long `stop` waits for the server to confirm. */
export const stopMs = 3_000;
/**
 * How long a poll asks the server to hold it, while text comes: longer than the server collects some. Where none comes, twice
 * as long each time, so that an answer costs few polls; at most less than the 29 s of API gateways.
 */
export const shortPollMs = 4_000;
export const pollTimeoutMs = 20_000;
/** Silence of a poll before a probe: the server collects text for 3 s. */
export const lingerMs = 3_500;
/** How long any call may take beyond what it asked the server for. */
export const callTimeoutMs = 10_000;
/** The least time between two polls that brought nothing. */
export const emptyPollMs = 250;
/** How long before its expiry a token is renewed. */
export const renewTokenMs = 60_000;
