// AI SDK's own chat with its default transport.
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { Failed, nothing, run, TOOL, url } from "./asking.mjs";

function chatOf(question, told, messages) {
  const chat = new Chat({
    id: question.name,
    messages,
    transport: new DefaultChatTransport({
      api: `${url}/api/chat`,
      headers: { "Idempotency-Key": question.name },
      body: { tools: [{ type: "function", function: TOOL }] },
    }),
    onFinish: ({ isAbort, isError, finishReason }) => {
      told.ended = !isAbort && !isError && finishReason !== undefined;
    },
  });
  return chat;
}

// What the chat has on its screen.
function saidIn(message) {
  const said = nothing();
  for (const part of message?.role === "assistant" ? message.parts : []) {
    if (part.type === "text") said.text += part.text;
    if (part.type === "reasoning") said.reasoning += part.text;
    if (part.type !== "dynamic-tool" && !part.type.startsWith("tool-")) continue;
    said.call_id += part.toolCallId;
    said.tool += part.toolName ?? part.type.slice("tool-".length);
    said.arguments = part.input;
  }
  return said;
}

async function through(chat, told, connect) {
  await connect();
  told.said = saidIn(chat.lastMessage);
  if (chat.error) throw chat.error;
  if (!told.ended) throw new Failed("no end");
}

// What runs is resumed. Where nothing runs any more, or never did, the question is sent again.
async function comeBack(chat, told) {
  told.beginAgain();
  await chat.resumeStream();
  if (chat.status === "ready" && !told.ended) await chat.regenerate();
}

// The page stays, and its chat resumes.
function resumeStream(question, told) {
  const chat = chatOf(question, told);
  let asked = false;
  return () =>
    through(chat, told, () => {
      if (asked) return comeBack(chat, told);
      asked = true;
      return chat.sendMessage({ text: question.text });
    });
}

// The page is loaded again, and has stored the question.
function reload(question, told) {
  const stored = [{ id: "u1", role: "user", parts: [{ type: "text", text: question.text }] }];
  return () => {
    const chat = chatOf(question, told, stored);
    return through(chat, told, () => comeBack(chat, told));
  };
}

console.error = () => {};
run({ resumeStream, reload });
