// Reads with the stock client what stands in base64 on a line of its standard input: the body of an answer.
// For each it prints what came, as a line of JSON, and ends with its standard input.
import { createInterface } from "node:readline";
import OpenAI from "openai";

let body;
const client = new OpenAI({
  apiKey: "sk-none",
  baseURL: "http://127.0.0.1:9/v1",
  maxRetries: 0,
  logLevel: "off",
  fetch: async () => new Response(body, { headers: { "content-type": "text/event-stream" } }),
});

// What the client says at the end of an answer that it has read whole.
const AT_THE_END = /^(missing |request ended without)/;

async function read() {
  const read = { text: "", reasoning: "", refusal: "", second: "", calls: [], finish: null, usage: null, error: null };
  let snapshot;
  const runner = client.chat.completions.stream({ model: "m", messages: [] });
  runner.on("chunk", (chunk, completion) => {
    snapshot = completion;
    for (const { index, delta } of chunk.choices) {
      if (!index) read.reasoning += delta?.reasoning_content || delta?.reasoning || delta?.reasoning_text || "";
    }
    const { prompt_tokens, completion_tokens } = chunk.usage ?? {};
    if (typeof prompt_tokens === "number" && typeof completion_tokens === "number") {
      read.usage = [prompt_tokens, completion_tokens];
    }
  });
  try {
    await runner.done();
  } catch ({ message }) {
    if (!AT_THE_END.test(message)) read.error = `${message}`.slice(0, 200);
  }
  const [first, second] = snapshot?.choices ?? [];
  read.text = first?.message?.content ?? "";
  read.refusal = first?.message?.refusal ?? "";
  read.second = second?.message?.content ?? "";
  read.finish = first?.finish_reason || null;
  read.calls = Object.values(first?.message?.tool_calls ?? []).map((call) => [
    `${call.id ?? ""}`,
    `${call.function?.name ?? ""}`,
    `${call.function?.arguments ?? ""}`,
  ]);
  return read;
}

for await (const line of createInterface({ input: process.stdin })) {
  body = Buffer.from(line, "base64");
  console.log(JSON.stringify(await read()));
}
