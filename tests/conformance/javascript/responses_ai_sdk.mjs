// Vercel's AI SDK with the model that `openai(…)` gives.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { question, run } from "./scenarios.mjs";

const modelOf = (server) => createOpenAI({ baseURL: server.url, apiKey: "sk-anything" })(server.model);
const city = z.object({ city: z.string() });
const tools = {
  get_weather: tool({ inputSchema: city, execute: async ({ city }) => `sunny in ${city}` }),
  get_time: tool({ inputSchema: city, execute: async ({ city }) => `noon in ${city}` }),
};
const told = ({ text, finishReason, usage }) => ({ text, finishReason, tokens: [usage.inputTokens, usage.outputTokens] });

run({
  async provider(server) {
    return modelOf(server).provider;
  },
  async whole(server) {
    return told(await generateText({ model: modelOf(server), prompt: question(server, "text") }));
  },
  async stream(server) {
    const result = streamText({ model: modelOf(server), prompt: question(server, "reasoning") });
    let [text, reasoning] = ["", ""];
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") text += part.text;
      if (part.type === "reasoning-delta") reasoning += part.text;
    }
    return { text, reasoning, finishReason: await result.finishReason };
  },
  async tools(server) {
    const result = streamText({ model: modelOf(server), prompt: question(server, "tools"), tools, stopWhen: stepCountIs(3) });
    await result.consumeStream();
    const steps = await result.steps;
    return { text: await result.text, calls: steps[0].toolCalls.map((call) => [call.toolName, call.input.city, call.toolCallId]) };
  },
  // What the model said before is sent as references to items of the first response.
  async two_turns(server) {
    const model = modelOf(server);
    const asked = { role: "user", content: question(server, "turns") };
    const first = await generateText({ model, messages: [asked] });
    const second = await generateText({ model, messages: [asked, ...first.response.messages, { role: "user", content: "And then?" }] });
    return [told(first), told(second)];
  },
  async object(server) {
    const person = z.object({ name: z.string(), age: z.number() });
    const result = await generateText({ model: modelOf(server), prompt: question(server, "person"), output: Output.object({ schema: person }) });
    return result.output;
  },
  async too_long(server) {
    await generateText({ model: modelOf(server), prompt: question(server, "too-long"), maxRetries: 0 });
  },
});
