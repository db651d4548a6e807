// Asks with the stock client what is posted to it, and answers with what came.
// It prints its port, and ends with its standard input.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import OpenAI from "openai";

const actions = {
  async whole(client, body, options) {
    return await client.chat.completions.create(body, options);
  },
  async stream(client, body, options) {
    const told = { text: "", finish_reason: null, usage: null };
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) {
      told.text += chunk.choices[0]?.delta.content ?? "";
      told.finish_reason = chunk.choices[0]?.finish_reason ?? told.finish_reason;
      told.usage = chunk.usage ?? told.usage;
    }
    return told;
  },
  async helper(client, body, options) {
    const runner = client.chat.completions.stream(body, options);
    return { text: await runner.finalContent() };
  },
  async chunks(client, body, options) {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) chunks.push(chunk);
    return { chunks };
  },
  async final(client, body, options) {
    return await client.chat.completions.stream(body, options).finalChatCompletion();
  },
  async calls(client, body, options) {
    const runner = client.chat.completions.stream(body, options);
    let argumentsOnTheWay = "";
    runner.on("tool_calls.function.arguments.delta", ({ arguments_delta }) => (argumentsOnTheWay += arguments_delta));
    const { choices } = await runner.finalChatCompletion();
    return { choice: choices[0], argumentsOnTheWay };
  },
  // Calls the tools itself, and goes on until the model calls none; each gives `gives`.
  async runTools(client, body, options) {
    const { gives, ...asked } = body;
    const given = [];
    const tools = asked.tools.map(({ type, function: described }) => ({
      type,
      function: { ...described, parse: JSON.parse, function: (input) => (given.push([described.name, input]), gives) },
    }));
    const runner = client.chat.completions.runTools({ ...asked, tools }, options);
    return { text: await runner.finalContent(), given };
  },
  async abort(client, body, options) {
    const stream = await client.chat.completions.create({ ...body, stream: true }, options);
    let text = "";
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (text.length > 20) stream.controller.abort();
    }
    return { text };
  },
  async models(client) {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return { ids };
  },
};

async function ask({ baseURL, apiKey, action, body, options }) {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  try {
    return await actions[action](client, body, options);
  } catch (error) {
    const { status, code, type, param, message } = error;
    return { error: { class: error.constructor.name, status, code, type, param, message } };
  }
}

const server = createServer(async (request, response) => {
  response.end(JSON.stringify(await ask(await json(request))));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
