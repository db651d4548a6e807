// What the client of Durable Streams sees, as it comes: each scenario asks for an answer, and reads
// it.
import { randomUUID } from "node:crypto";
import { DurableStream, stream } from "@durable-streams/client";

const { url, scenario, text } = JSON.parse(process.argv[2]);

const post = (path, body, headers = {}) =>
  fetch(url + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  }).then((answer) => answer.json());

const { token } = await post("/session", {});
const headers = { Authorization: `Bearer ${token}` };
const message = { message_id: randomUUID(), previous_message_id: null, payload: { text } };
const { response_id: id } = await post("/chat/message", message, headers);
const answer = `${url}/streams/${id}`;

// All messages until the stream is closed, or until there are so many.
async function read(options, most = Infinity) {
  const reading = await stream({ url: answer, headers, json: true, ...options });
  if (options.live === false) {
    const messages = await reading.json();
    return { messages, offset: reading.offset, closed: reading.streamClosed };
  }
  const messages = [];
  return new Promise((done) => {
    reading.subscribeJson(({ items, offset, streamClosed }) => {
      messages.push(...items);
      if (streamClosed || messages.length >= most) {
        done({ messages: [...messages], offset, closed: streamClosed });
      }
    });
  }).finally(() => reading.cancel());
}

async function reloaded(live) {
  const first = await read({ live }, 5);
  const second = await read({ live, offset: first.offset });
  return { ...second, first: first.messages, messages: [...first.messages, ...second.messages] };
}

const SCENARIOS = {
  sse: () => read({ live: "sse" }),
  longPoll: () => read({ live: "long-poll" }),
  reloadedSse: () => reloaded("sse"),
  reloadedLongPoll: () => reloaded("long-poll"),
  async catchUp() {
    const live = await read({ live: "sse" });
    const again = await read({ live: false });
    const tail = await read({ live: false, offset: live.offset });
    return { live: live.messages, again: again.messages, tail: tail.messages, closed: tail.closed };
  },
  async head() {
    const { offset } = await read({ live: "sse" });
    const told = await DurableStream.head({ url: answer, headers });
    return { offset, told: told.offset, closed: told.streamClosed, type: told.contentType };
  },
  async unknown() {
    try {
      await stream({ url: `${url}/streams/rsp_of_nobody`, headers });
    } catch (error) {
      return { status: error.status };
    }
  },
};
console.log(JSON.stringify(await SCENARIOS[scenario]()));
process.exit(0);
