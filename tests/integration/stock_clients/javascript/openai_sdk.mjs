// OpenAI's own SDK.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { run } from "./side_by_side.mjs";
import { PERSON, PIXEL, resultOf, TOOLS } from "./tools.mjs";

const completions = ({ url, key }) => new OpenAI({ baseURL: url, apiKey: key }).chat.completions;
const user = (content) => ({ role: "user", content });

async function streamed(server, messages, options = {}) {
  const body = { model: server.model, messages, stream: true, stream_options: { include_usage: true }, ...options };
  const told = { text: "", reasoning: "", refusal: "", finish_reason: null, usage: null };
  for await (const { choices, usage } of await completions(server).create(body)) {
    told.usage = usage ?? told.usage;
    for (const { delta, finish_reason } of choices) {
      told.text += delta.content ?? "";
      told.reasoning += delta.reasoning_content ?? "";
      told.refusal += delta.refusal ?? "";
      told.finish_reason = finish_reason ?? told.finish_reason;
    }
  }
  return told;
}

async function whole(server, messages, options = {}) {
  const { choices, usage } = await completions(server).create({ model: server.model, messages, ...options });
  return { choices: choices.map(({ message, finish_reason }) => ({ ...message, finish_reason })), usage };
}

const asked = (script, ask, options) => (server) => ask(server, [user(server.question(script))], options);

async function tools(server) {
  const given = TOOLS.map((tool) => ({
    type: "function",
    function: { ...tool.function, parse: JSON.parse, function: (_input) => resultOf(tool.function.name) },
  }));
  const messages = [user(server.question("tools"))];
  const runner = completions(server).runTools({ model: server.model, messages, tools: given });
  const text = await runner.finalContent();
  return { text, messages: runner.messages };
}

async function toolsStreamed(server) {
  const messages = [user(server.question("tools"))];
  const runner = completions(server).stream({ model: server.model, messages, tools: TOOLS });
  const { choices } = await runner.finalChatCompletion();
  return choices.map(({ message, finish_reason }) => ({ calls: message.tool_calls, finish_reason }));
}

async function parse(server) {
  const format = zodResponseFormat(PERSON, "person");
  const messages = [user(server.question("person"))];
  const told = await completions(server).parse({ model: server.model, messages, response_format: format });
  return told.choices[0].message.parsed;
}

const image = (server) =>
  whole(server, [user([{ type: "text", text: server.question("text") }, { type: "image_url", image_url: { url: PIXEL } }])]);

run({
  stream: asked("text", streamed),
  whole: asked("text", whole),
  reasoning: asked("reasoning", streamed),
  refusal: asked("refusal", streamed),
  refusal_whole: asked("refusal", whole),
  filtered: asked("filtered", streamed),
  json_mode: asked("person", whole, { response_format: { type: "json_object" } }),
  parse,
  tools,
  tools_streamed: toolsStreamed,
  image,
  two_choices: asked("text", whole, { n: 2 }),
  silence_first: asked("silence-first", streamed),
  silence_within: asked("silence-within", streamed),
  silence_whole: asked("silence-first", whole),
  long_silence_first: asked("long-silence-first", streamed),
  long_silence_whole: asked("long-silence-first", whole),
  busy_once: asked("busy-once", streamed),
  busy: asked("busy", streamed),
  no_quota: asked("no-quota", streamed),
  too_long: asked("too-long", whole),
  policy: asked("policy", streamed),
});
