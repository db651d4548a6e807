// LangChain's chat model.
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { run } from "./side_by_side.mjs";
import { CITY, PERSON, PIXEL, resultOf } from "./tools.mjs";

const chat = ({ url, model, key }) => new ChatOpenAI({ model, apiKey: key, configuration: { baseURL: url } });

const TOOLS = [
  tool(() => resultOf("get_weather"), { name: "get_weather", description: "The weather.", schema: CITY }),
  tool(() => resultOf("get_time"), { name: "get_time", description: "The time.", schema: CITY }),
];

const told = ({ content, tool_calls, usage_metadata, response_metadata }) => ({
  content,
  calls: (tool_calls ?? []).map(({ id, name, args }) => [id, name, args]),
  usage: usage_metadata ?? null,
  finish_reason: response_metadata?.finish_reason ?? null,
});

const streamed = (script) => async (server) => {
  let whole;
  for await (const chunk of await chat(server).stream(server.question(script))) {
    whole = whole ? whole.concat(chunk) : chunk;
  }
  return told(whole);
};

const invoked = (script) => async (server) => told(await chat(server).invoke(server.question(script)));

async function bindTools(server) {
  const model = chat(server).bindTools(TOOLS);
  const messages = [new HumanMessage(server.question("tools"))];
  const called = await model.invoke(messages);
  const results = called.tool_calls.map(
    ({ id, name }) => new ToolMessage({ content: resultOf(name), tool_call_id: id, name }),
  );
  return [told(called), told(await model.invoke([...messages, called, ...results]))];
}

const structured = (script, options) => async (server) =>
  await chat(server).withStructuredOutput(PERSON, options).invoke(server.question(script));

async function image(server) {
  const content = [
    { type: "text", text: server.question("text") },
    { type: "image_url", image_url: { url: PIXEL } },
  ];
  return told(await chat(server).invoke([new HumanMessage({ content })]));
}

async function twoTurns(server) {
  const first = new HumanMessage(server.question("turns"));
  const answer = await chat(server).invoke([first]);
  return [told(answer), told(await chat(server).invoke([first, answer, new HumanMessage("And then?")]))];
}

run({
  invoke: invoked("text"),
  stream: streamed("text"),
  bind_tools: bindTools,
  structured_output: structured("person", { name: "person", method: "jsonSchema" }),
  structured_output_default: structured("person", { name: "Person" }),
  image,
  named: async (server) => told(await chat(server).invoke([new HumanMessage({ content: server.question("text"), name: "ada" })])),
  two_turns: twoTurns,
  silence_within: streamed("silence-within"),
  too_long: invoked("too-long"),
});
