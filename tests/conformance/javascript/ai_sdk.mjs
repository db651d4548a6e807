// What AI SDK's own chat sees, as it comes: each scenario gets the server's address and the texts
// to send, and gives what the chat has at its end.
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from "ai";

const { url, scenario, text, more, module } = JSON.parse(process.argv[2]);
const api = `${url}/api/chat`;
// AI SDK's own transport, or Evenflow's.
const Transport = module ? (await import(module)).EvenflowChatTransport : DefaultChatTransport;
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
};

function chat(id, options = {}, body = {}) {
  const seen = { errors: [], data: [] };
  const running = new Chat({
    id,
    transport: new Transport({ api, body }),
    onError: (error) => seen.errors.push(error.message),
    onData: (part) => seen.data.push(part),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) => {
      seen.finish = { isAbort, isDisconnect, isError, finishReason };
    },
    ...options,
  });
  return { running, seen };
}

const told = ({ running, seen }) => ({
  status: running.status,
  error: running.error?.message,
  messages: running.messages,
  ...seen,
});

async function until(condition) {
  const giveUpAt = Date.now() + 20_000;
  while (!condition()) {
    if (Date.now() > giveUpAt) throw new Error("it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const textOf = ({ running }) =>
  (running.lastMessage?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
const hasSome = (each) => () => each.running.lastMessage?.role === "assistant" && textOf(each).length > 20;
const stop = (id, asked) =>
  fetch(`${api}/${encodeURIComponent(id)}/stop`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: asked && JSON.stringify(asked),
  }).then((answer) => answer.json());

const messagesOf = async (id) =>
  module ? new Transport({ api }).messages(id) : (await (await fetch(`${api}/${id}`)).json()).messages;

const SCENARIOS = {
  async send() {
    const one = chat("plain");
    await one.running.sendMessage({ text });
    return told(one);
  },

  async twoTurns() {
    const one = chat("turns");
    await one.running.sendMessage({ text });
    await one.running.sendMessage({ text: more });
    return told(one);
  },

  async regenerate() {
    const one = chat("again");
    await one.running.sendMessage({ text });
    const first = one.running.lastMessage.id;
    await one.running.regenerate();
    return { first, ...told(one) };
  },

  async tools() {
    const called = [];
    const one = chat(
      "tools",
      {
        sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
        onToolCall: ({ toolCall }) => {
          called.push(toolCall);
          one.running.addToolOutput({
            tool: toolCall.toolName,
            toolCallId: toolCall.toolCallId,
            output: { weather: "sunny" },
          });
        },
      },
      { tools: [WEATHER] },
    );
    await one.running.sendMessage({ text });
    await until(() => one.running.status === "ready" && textOf(one));
    return { called, ...told(one) };
  },

  // A page that is loaded again has the chat's id, and what it stored: here the question.
  async reload() {
    const [before, after] = [chat("a chat/with a name"), null];
    const sending = before.running.sendMessage({ text });
    await until(hasSome(before));
    const stored = before.running.messages.slice(0, 1);
    await before.running.stop();
    await sending;
    const partly = textOf(before);
    const again = chat("a chat/with a name", { messages: stored });
    await again.running.resumeStream();
    return { partly, before: before.running.messages.at(-1).id, ...told(again) };
  },

  // A page that has stored nothing asks the server what was said.
  async readAgain() {
    const before = chat("read");
    await before.running.sendMessage({ text });
    const read = await messagesOf("read");
    const again = chat("read", { messages: read });
    await again.running.resumeStream();
    await again.running.sendMessage({ text: more });
    return { read, before: told(before).messages, ...told(again) };
  },

  async readWhileItRuns() {
    const before = chat("running");
    const sending = before.running.sendMessage({ text });
    await until(hasSome(before));
    const read = await messagesOf("running");
    const again = chat("running", { messages: read });
    await Promise.all([sending, again.running.resumeStream()]);
    return { read, before: told(before).messages, ...told(again) };
  },

  async secondTab() {
    const one = chat("tabs");
    const sending = one.running.sendMessage({ text });
    await until(hasSome(one));
    const other = chat("tabs", { messages: one.running.messages.slice(0, 1) });
    await Promise.all([sending, other.running.resumeStream()]);
    return { one: told(one), other: told(other) };
  },

  async nothingRuns() {
    const one = chat("nobody");
    await one.running.resumeStream();
    return told(one);
  },

  // The button of another device, while this one reads.
  async stop() {
    const one = chat("stop");
    const sending = one.running.sendMessage({ text });
    await until(hasSome(one));
    const stale = await stop("stop", { activeStreamId: "rsp_of_before" });
    const length = textOf(one).length;
    await until(() => textOf(one).length > length + 20);
    const answer = await stop("stop");
    await sending;
    const late = chat("stop");
    await late.running.resumeStream();
    return { stale, answer, late: late.running.messages, ...told(one) };
  },

  // The page stays, and so its calls are made.
  async stopButton() {
    const one = await SCENARIOS.leave();
    while ((await fetch(`${api}/leave/stream`)).status !== 204);
    return one;
  },

  async resumeAndStop() {
    const before = chat("resumed");
    before.running.sendMessage({ text });
    await until(hasSome(before));
    const one = chat("resumed", { messages: before.running.messages.slice(0, 1) });
    const resuming = one.running.resumeStream();
    await until(hasSome(one));
    await one.running.stop();
    await resuming;
    await until(() => before.running.status === "ready");
    return { before: told(before), ...told(one) };
  },

  // React's strict mode resumes twice: the first makes way for the second.
  async resumeTwice() {
    const before = chat("twice");
    const sending = before.running.sendMessage({ text });
    await until(hasSome(before));
    const one = chat("twice", { messages: before.running.messages.slice(0, 1) });
    await Promise.all([sending, one.running.resumeStream(), one.running.resumeStream()]);
    return told(one);
  },

  // With AI SDK's transport: leaving is not stopping, as its documentation says.
  async leave() {
    const one = chat("leave");
    const sending = one.running.sendMessage({ text });
    await until(hasSome(one));
    await one.running.stop();
    await sending;
    return told(one);
  },
};

console.log(JSON.stringify(await SCENARIOS[scenario]()));
process.exit(0);
