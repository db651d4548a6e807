// OpenAI's SDK for JavaScript with its Responses API.
import OpenAI from "openai";
import { question, run } from "./scenarios.mjs";

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = ["get_weather", "get_time"].map((name) => ({ type: "function", name, parameters, strict: true }));

const clientOf = (server) => new OpenAI({ baseURL: server.url, apiKey: "sk-anything", maxRetries: 0 });
const told = (response) => ({
  status: response.status,
  text: response.output_text,
  items: response.output.map((item) => item.type),
  tokens: [response.usage.input_tokens, response.usage.output_tokens],
});

run({
  async whole(server) {
    return told(await clientOf(server).responses.create({ model: server.model, input: question(server, "text") }));
  },
  async stream(server) {
    const stream = clientOf(server).responses.stream({ model: server.model, input: question(server, "reasoning") });
    let deltas = "";
    stream.on("response.output_text.delta", (event) => (deltas += event.delta));
    return { ...told(await stream.finalResponse()), deltas };
  },
  async tools(server) {
    const client = clientOf(server);
    const first = await client.responses.stream({ model: server.model, input: question(server, "tools"), tools }).finalResponse();
    const outputs = first.output.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "fine" }));
    const second = await client.responses.create({ model: server.model, input: outputs, previous_response_id: first.id, tools });
    return { calls: first.output.map((call) => [call.name, call.arguments, call.call_id]), answer: told(second) };
  },
  async cut(server) {
    const client = clientOf(server);
    let [text, last, id] = ["", -1, ""];
    for await (const event of await client.responses.create({ model: server.model, input: question(server, "silence-within"), stream: true })) {
      last = event.sequence_number;
      if (event.type === "response.created") id = event.response.id;
      if (event.type !== "response.output_text.delta") continue;
      text += event.delta;
      break;
    }
    const before = text;
    for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: last })) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    return { before, text };
  },
  async too_long(server) {
    await clientOf(server).responses.create({ model: server.model, input: question(server, "too-long") });
  },
});
