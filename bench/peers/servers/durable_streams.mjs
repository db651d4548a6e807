// The reference server of Durable Streams, in memory (its default).
import { DurableStreamTestServer } from "@durable-streams/server";

await new DurableStreamTestServer({ port: Number(process.env.PORT) }).start();
