// The client of Durable Streams. The question is a message of a session.
import { stream } from "@durable-streams/client";
import { codeIn, Failed, nothing, run, url } from "./asking.mjs";

async function post(path, body, headers = {}) {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Failed(codeIn(text) ?? `load balancer ${answer.status}`);
  return JSON.parse(text);
}

function saidIn(frames) {
  const said = nothing();
  for (const frame of frames) {
    if (frame.type === "chat.response.delta") said.text += frame.delta;
    if (frame.kind === "reasoning") said.reasoning += frame.text;
    if (frame.kind === "arguments") said.arguments += frame.text;
    if (frame.kind !== "call") continue;
    said.call_id += frame.id;
    said.tool += frame.name;
  }
  return said;
}

const by = (live) => (question, told) => {
  let session;
  let responseId;
  let offset = "-1";
  let frames = [];

  async function begin() {
    session ??= await post("/session", {});
    const payload = { text: question.text };
    const message = { message_id: "m1", previous_message_id: null, payload };
    const headers = { authorization: `Bearer ${session.token}` };
    responseId ??= (await post("/chat/message", message, headers)).response_id;
    return headers;
  }

  function take(frame) {
    if (frame.type === "chat.response.error") told.lasting = frame.error.code;
    if (frame.type === "chat.response.completed") told.ended = true;
    if (frame.type === "chat.response.restarted") {
      frames = frames.filter(({ index }) => index <= frame.from_index);
    } else if (frame.index !== undefined) {
      frames.push(frame);
    }
  }

  return async () => {
    const headers = await begin();
    const address = `${url}/streams/${responseId}`;
    const response = await stream({ url: address, headers, live, offset, json: true, warnOnHttp: false });
    response.subscribeJson((batch) => {
      batch.items.forEach(take);
      offset = batch.offset;
      told.said = saidIn(frames);
    });
    await response.closed;
    if (!told.ended) throw new Failed("no end");
  };
};

run({ sse: by("sse"), "long-poll": by("long-poll") });
