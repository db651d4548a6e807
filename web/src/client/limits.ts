// Every bound and interval of the client. Times are milliseconds.

/** How long a question waits for a WebSocket before it is asked by HTTP. */
export const openPatienceMs = 2_000;
/** The same once a WebSocket has failed: a blocked port should not cost every question two seconds. */
export const reopenPatienceMs = 500;
/** How long an attempt may go on in the background, to serve a later question. */
export const openAttemptMs = 10_000;
/** Tries in a row without result before an answer goes on over the next transport, if HTTP reaches the server. */
export const websocketFailures = 3;
export const sseFailures = 2;
/** Unanswered handshakes that Firefox still keeps: after the first number HTTP is probed, the second is the most. */
export const hungHandshakes = 2;
export const mostHungHandshakes = 4;
export const hungHandshakeMs = 300_000;
/** Refusals in a row (quota, overload) before a question that was never accepted is given up: more than a take-over lasts. */
export const refusals = 8;
/** The longest `Retry-After` that is waited for. With a longer one a question fails; an answer waits this long. */
export const longestWaitMs = 60_000;
/** Half of what the first retry is spread over. */
export const backoffBaseMs = 250;
export const backoffCapMs = 8_000;
/** Failures that don't lengthen the wait: a lost node's answers go on after some three seconds. */
export const backoffHeldFailures = 3;
/**
 * The longest pause between two tries at a server that is out of reach, from start to start. With full jitter the next
 * try starts within 1.6 s of the network's return in 95 of 100 cases.
 */
export const probeCapMs = 2_000;
/** The shortest such pause in a hidden tab, without a network, and after a long outage. The longest is twice that. */
export const slowProbeMs = 5_000;
/** The first tries of a hidden tab, which come as fast as in any other: a lost node's answers go on by then. */
export const hiddenFastProbes = 4;
/** After an outage of this length the tries are slow. */
export const fastProbesMs = 600_000;
/**
 * How long a try may be without an answer. TCP itself retries after 1, 3 and 7 s, so a try with lost packets is
 * replaced by a fresh one before that takes long. Every third try has twice as long, for slow lines.
 */
export const probeMs = 2_000;
export const longProbeEvery = 3;
/** At a wake-up, a connection that was silent for longer than this, or a try that is older, is not trusted. */
export const doubtMs = 100;
/** The most copies of a call that is normally answered at once, and the time between two of them. */
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
 * Silence in the middle of a text before a ping, and how long that may stay unanswered before the next connection is
 * opened beside this one.
 */
export const flowSilenceMs = 1_000;
export const flowPongMs = 500;
/** How often that time is doubled: a connection that keeps falling silent before it brought anything may be slow. */
export const pongDoublings = 3;
/** How late a timer is in a tab that has slept. */
export const sleptMs = 500;
/** Silence of a call by HTTP before the first probe of the server, and the time between further probes. */
export const callSilenceMs = 2_500;
export const longCallSilenceMs = 10_000;
/** Silence of a stream whose successor is open already, before it is lost: a server sends heartbeats more often. */
export const longSilenceMs = 20_000;
/** Requests for missing deltas in a row, without progress, before the server is taken for broken. */
export const recoveries = 3;
/** Silence on an event stream before a poll looks whether there is anything; the next times, twice as long each. */
export const quietMs = 2_000;
/** The same in the middle of a text that comes. */
export const flowQuietMs = 1_000;
/** After this many such polls the stream is taken for dead: in that time the server would have sent a heartbeat. */
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
 * How long a poll asks the server to hold it while text comes: longer than the server collects text. While none comes,
 * it asks for twice as long each time, so that an answer costs few polls. The longest is below the 29 s of API
 * gateways.
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
