// Vercel's AI SDK with Anthropic's provider: a thought comes back with the next turn.
import { createAnthropic } from "@ai-sdk/anthropic";
import { streamText, tool } from "ai";
import { z } from "zod";
import { question, run } from "./scenarios.mjs";

const modelOf = (server) => createAnthropic({ baseURL: server.url, apiKey: "sk-anything" })(server.model);
const providerOptions = { anthropic: { thinking: { type: "enabled", budgetTokens: 2048 } } };
const tools = { get_weather: tool({ inputSchema: z.object({ city: z.string() }) }) };

async function streamed(server, messages, more = {}) {
  const result = streamText({ model: modelOf(server), messages, providerOptions, maxRetries: 0, ...more });
  await result.consumeStream();
  const { messages: said } = await result.response;
  return { text: await result.text, reasoning: await result.reasoningText, finishReason: await result.finishReason, said };
}

run({
  async two_turns(server) {
    const asked = { role: "user", content: question(server, "reasoning") };
    const { said, ...first } = await streamed(server, [asked]);
    const { text } = await streamed(server, [asked, ...said, { role: "user", content: "And then?" }]);
    return [first, text];
  },
  async calls(server) {
    const { finishReason, said } = await streamed(server, [{ role: "user", content: question(server, "weather") }], { tools });
    const call = said[0].content.find((part) => part.type === "tool-call");
    return [finishReason, call.toolName, call.input];
  },
});
