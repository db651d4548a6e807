// What Anthropic's client for JavaScript sees, as it comes: each scenario gets the texts to send.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

const { url, scenario, text, more, model } = JSON.parse(process.argv[2]);
const client = new Anthropic({ baseURL: url, apiKey: "sk-ant-anything", maxRetries: 0 });
const WEATHER = {
  name: "get_weather",
  description: "The weather in a city",
  input_schema: { type: "object", properties: { city: { type: "string" } } },
};
const THINKING = { type: "enabled", budget_tokens: 2048 };

const said = (given = {}) => ({
  model,
  max_tokens: 1000,
  messages: [{ role: "user", content: text }],
  ...given,
});

async function streamed(given = {}, options = {}) {
  const texts = [];
  const stream = client.messages.stream(said(given), options);
  stream.on("text", (piece) => texts.push(piece));
  return { ...(await stream.finalMessage()), texts };
}

// The texts of the first so many events, and then the stream is broken off.
async function begun(pieces, options = {}) {
  const stream = client.messages.stream(said(), options);
  const texts = [];
  let id;
  for await (const event of stream) {
    if (event.type === "message_start") id = event.message.id;
    if (event.type === "content_block_delta") texts.push(event.delta.text);
    if (texts.length === pieces) break;
  }
  stream.abort();
  return { texts, id };
}

const SCENARIOS = {
  whole: () => client.messages.create(said()),
  stream: () => streamed(),
  async events() {
    const types = [];
    for await (const event of await client.messages.create({ ...said(), stream: true })) {
      types.push(event.type);
    }
    return types;
  },
  thinking: async () => [
    await streamed({ thinking: THINKING }),
    await client.messages.create(said({ thinking: THINKING })),
  ],
  async two_turns() {
    const first = await client.messages.create(said({ thinking: THINKING, tools: [WEATHER] }));
    const call = first.content.find((block) => block.type === "tool_use");
    const result = { type: "tool_result", tool_use_id: call.id, content: more };
    const messages = [
      { role: "user", content: text },
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ];
    const second = await streamed({ messages, tools: [WEATHER] });
    const { name, input } = call;
    return { called: { name, input }, stop: first.stop_reason, ...second };
  },
  tools_streamed: () => streamed({ tools: [WEATHER] }),
  parameters() {
    const source = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
    return client.messages.create(
      said({
        messages: [{ role: "user", content: [{ type: "text", text }, { type: "image", source }] }],
        system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
        stop_sequences: ["END"],
        temperature: 0.5,
        top_k: 7,
        tools: [WEATHER],
        tool_choice: { type: "tool", name: "get_weather", disable_parallel_tool_use: true },
        metadata: { user_id: "ada" },
      }),
    );
  },
  abort: () => begun(5),
  async come_back() {
    const options = { headers: { "Idempotency-Key": more } };
    const { texts, id } = await begun(10, options);
    return { ...(await streamed({}, options)), begun: texts.join(""), first: id };
  },
  unserved: () => client.messages.create(said({ container: "c" })),
  tool_runner() {
    const { name, description, input_schema: inputSchema } = WEATHER;
    const run = ({ city }) => `${more} in ${city}`;
    const tools = [betaTool({ name, description, inputSchema, run })];
    return client.beta.messages.toolRunner(said({ tools })).runUntilDone();
  },
  async models() {
    const listed = [];
    for await (const each of client.models.list()) listed.push(each.id);
    return { listed, ...(await client.models.retrieve(model)) };
  },
  count_tokens: () => client.messages.countTokens({ model, messages: said().messages }),
};

let seen;
try {
  seen = await SCENARIOS[scenario]();
} catch (error) {
  if (!(error instanceof Anthropic.APIError)) throw error;
  seen = {
    raised: error.constructor.name,
    status: error.status,
    body: error.error,
    request_id: error.requestID,
    retry_after: error.headers?.get("retry-after") ?? null,
  };
}
console.log(JSON.stringify(seen));
