// What writes the model's answers into Durable Streams: its client's recommended producer.
import { createServer } from "node:http";
import { DurableStream, IdempotentProducer } from "@durable-streams/client";
import { ask, body, events } from "./model.mjs";

createServer(async (request, response) => {
  const stream = await DurableStream.create({
    url: `${process.env.STREAMS_URL}${request.url}`,
    contentType: "application/json",
  });
  const answer = await ask(await body(request));
  response.writeHead(201).end();
  const producer = new IdempotentProducer(stream, "model", { autoClaim: true });
  for await (const event of events(answer)) if (event !== "[DONE]") producer.append(event);
  await producer.close();
}).listen(process.env.PORT, "127.0.0.1");
