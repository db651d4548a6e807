// What publishes the model's answers to nchan: an HTTP request each event, one after the other.
import http, { createServer } from "node:http";
import { ask, body, events } from "./model.mjs";

const agent = new http.Agent({ keepAlive: true });

function publish(channel, message) {
  return new Promise((resolve, reject) => {
    http
      .request(
        `${process.env.NCHAN_URL}/publish${channel}`,
        { agent, method: "POST", headers: { "content-length": Buffer.byteLength(message) } },
        (reply) => reply.resume().on("end", resolve),
      )
      .on("error", reject)
      .end(message);
  });
}

createServer(async (request, response) => {
  const answer = await ask(await body(request));
  response.writeHead(202).end();
  for await (const event of events(answer)) await publish(request.url, event);
}).listen(process.env.PORT, "127.0.0.1");
