// The suite of Durable Streams, as it comes, against the server that the environment names.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: 2_000 });
