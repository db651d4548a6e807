// Asks with the stock client, and prints what came as one line of JSON.
import OpenAI from "openai";

const { baseURL, apiKey, action, body, options } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

const actions = {
  async whole() {
    return await client.chat.completions.create(body, options);
  },
  async respond() {
    return await client.responses.create(body, options);
  },
  async stream() {
    const told = { text: "", finish_reason: null, usage: null };
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) {
      told.text += chunk.choices[0]?.delta.content ?? "";
      told.finish_reason = chunk.choices[0]?.finish_reason ?? told.finish_reason;
      told.usage = chunk.usage ?? told.usage;
    }
    return told;
  },
  async helper() {
    const runner = client.chat.completions.stream(body, options);
    return { text: await runner.finalContent() };
  },
  async chunks() {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) chunks.push(chunk);
    return { chunks };
  },
  async final() {
    return await client.chat.completions.stream(body, options).finalChatCompletion();
  },
  async calls() {
    const runner = client.chat.completions.stream(body, options);
    let argumentsOnTheWay = "";
    runner.on("tool_calls.function.arguments.delta", ({ arguments_delta }) => (argumentsOnTheWay += arguments_delta));
    const { choices } = await runner.finalChatCompletion();
    return { choice: choices[0], argumentsOnTheWay };
  },
  // Calls the tools itself, and goes on until the model calls none; each gives `gives`.
  async runTools() {
    const { gives, ...asked } = body;
    const given = [];
    const tools = asked.tools.map(({ type, function: described }) => ({
      type,
      function: { ...described, parse: JSON.parse, function: (input) => (given.push([described.name, input]), gives) },
    }));
    const runner = client.chat.completions.runTools({ ...asked, tools }, options);
    return { text: await runner.finalContent(), given };
  },
  async abort() {
    const stream = await client.chat.completions.create({ ...body, stream: true }, options);
    let text = "";
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (text.length > 20) stream.controller.abort();
    }
    return { text };
  },
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return { ids };
  },
};

try {
  console.log(JSON.stringify(await actions[action]()));
} catch (error) {
  const { status, code, type, param, message } = error;
  console.log(JSON.stringify({ error: { class: error.constructor.name, status, code, type, param, message } }));
}
// Whoever is still connected is gone with the process; an abort must have told the server before.
await new Promise((resolve) => process.stdin.on("end", resolve).resume());
