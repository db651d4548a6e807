// Asks the model, as any backend does before it hands the tokens on. `node:http` is the cheapest
// client that Node has, so that the peer is measured and not this.
import http from "node:http";

const agent = new http.Agent({ keepAlive: true });

/** The model's answer to a request of OpenAI's API: server-sent events, as bytes. */
export function ask(request) {
  return new Promise((resolve, reject) => {
    http
      .request(
        `${process.env.MODEL_URL}/chat/completions`,
        { agent, method: "POST", headers: { "content-length": Buffer.byteLength(request) } },
        resolve,
      )
      .on("error", reject)
      .end(request);
  });
}

/** The data of each event of an answer. */
export async function* events(answer) {
  let rest = "";
  for await (const text of answer.setEncoding("utf8")) {
    const parts = (rest + text).split("\n\n");
    rest = parts.pop();
    for (const part of parts) yield part.slice("data: ".length);
  }
}

/** The whole body of a request. */
export async function body(request) {
  let text = "";
  for await (const part of request.setEncoding("utf8")) text += part;
  return text;
}

/** A model that went away ends one answer, not the server. */
process.on("unhandledRejection", (error) => console.error(String(error)));
