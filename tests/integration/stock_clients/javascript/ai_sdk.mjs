// The AI SDK, with OpenAI's provider and the one for compatible servers.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { run } from "./side_by_side.mjs";
import { CITY, PERSON, PIXEL, resultOf } from "./tools.mjs";

const openai = ({ url, model, key }) => createOpenAI({ baseURL: url, apiKey: key }).chat(model);
const compatible = ({ url, model, key }) =>
  createOpenAICompatible({ name: "stock", baseURL: url, apiKey: key, supportsStructuredOutputs: true })(model);

const tools = {
  get_weather: tool({ description: "The weather.", inputSchema: CITY, execute: () => resultOf("get_weather") }),
  get_time: tool({ description: "The time.", inputSchema: CITY, execute: () => resultOf("get_time") }),
};

const counted = ({ inputTokens, outputTokens, reasoningTokens, cachedInputTokens }) => ({
  inputTokens,
  outputTokens,
  reasoningTokens,
  cachedInputTokens,
});

const streamed = (provider, script, options = {}) => async (server) => {
  let failure;
  const onError = ({ error }) => {
    failure = error;
  };
  const result = streamText({ model: provider(server), prompt: server.question(script), onError, ...options });
  await result.consumeStream({ onError: () => {} });
  if (failure) throw failure;
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    finishReason: await result.finishReason,
    steps: (await result.steps).map(({ toolCalls, toolResults }) => [
      toolCalls.map(({ toolCallId, toolName, input }) => [toolCallId, toolName, input]),
      toolResults.map(({ output }) => output),
    ]),
    usage: counted(await result.totalUsage),
  };
};

const generated = (provider, script, options = {}) => async (server) => {
  const { text, finishReason, usage } = await generateText({
    model: provider(server),
    prompt: server.question(script),
    ...options,
  });
  return { text, finishReason, usage: counted(usage) };
};

const object = (provider) => async (server) =>
  (await generateObject({ model: provider(server), prompt: server.question("person"), schema: PERSON })).object;

async function output(server) {
  const asked = { model: openai(server), prompt: server.question("person"), output: Output.object({ schema: PERSON }) };
  return (await generateText(asked)).output;
}

const image = (provider) => async (server) => {
  const data = PIXEL.split(",")[1];
  const content = [
    { type: "text", text: server.question("text") },
    { type: "file", mediaType: "image/png", data },
  ];
  return (await generateText({ model: provider(server), messages: [{ role: "user", content }] })).text;
};

const twoSteps = { tools, stopWhen: stepCountIs(3) };

run({
  stream: streamed(openai, "text"),
  stream_compatible: streamed(compatible, "text"),
  whole: generated(openai, "text"),
  reasoning_compatible: streamed(compatible, "reasoning"),
  tools: streamed(openai, "tools", twoSteps),
  tools_compatible: streamed(compatible, "tools", twoSteps),
  tools_whole: generated(openai, "tools", twoSteps),
  object: object(openai),
  object_compatible: object(compatible),
  output,
  image: image(openai),
  image_compatible: image(compatible),
  filtered: streamed(openai, "filtered"),
  silence_first: streamed(openai, "silence-first"),
  silence_within: streamed(compatible, "silence-within"),
  silence_whole: generated(openai, "silence-first"),
  long_silence_first: streamed(openai, "long-silence-first"),
  busy: generated(openai, "busy"),
  too_long: generated(openai, "too-long"),
});
