// Vercel's resumable-stream behind Node's own HTTP server: "usage with explicit resumption".
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createResumableStreamContext } from "resumable-stream";
import { ask, body } from "./model.mjs";

const context = createResumableStreamContext({ waitUntil: (ended) => ended });

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  let stream;
  if (request.method === "POST") {
    const answer = await ask(await body(request));
    const text = Readable.toWeb(answer).pipeThrough(new TextDecoderStream());
    stream = await context.createNewResumableStream(pathname, () => text);
  } else {
    stream = await context.resumeExistingStream(pathname, Number(searchParams.get("resumeAt")));
  }
  if (!stream) return response.writeHead(422).end("Stream is already done");
  response.writeHead(200, { "content-type": "text/event-stream" });
  await pipeline(Readable.fromWeb(stream), response).catch(() => {}); // the reader may leave
}).listen(process.env.PORT, "127.0.0.1");
