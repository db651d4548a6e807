// AG-UI's own HttpAgent, with its verifier on.
import { HttpAgent } from "@ag-ui/client";
import { Failed, nothing, run, TOOL, url } from "./asking.mjs";

function agentOf(question, told) {
  const agent = new HttpAgent({
    url: `${url}/agui`,
    threadId: question.name,
    initialMessages: [{ id: "u1", role: "user", content: question.text }],
  });
  agent.subscribe({
    onRunFinishedEvent: () => {
      told.ended = true;
    },
    onRunErrorEvent: ({ event }) => {
      agent.code = event.code;
    },
  });
  return agent;
}

// What the agent has in its messages.
function saidIn(messages) {
  const said = nothing();
  for (const message of messages) {
    if (message.role === "reasoning") said.reasoning += message.content;
    if (message.role !== "assistant") continue;
    said.text += message.content ?? "";
    for (const call of message.toolCalls ?? []) {
      said.call_id += call.id;
      said.tool += call.function.name;
      said.arguments += call.function.arguments;
    }
  }
  return said;
}

async function through(agent, told) {
  agent.code = undefined;
  try {
    await agent.runAgent({ runId: "run", tools: [TOOL] });
  } finally {
    told.said = saidIn(agent.messages);
  }
  if (agent.code) throw new Failed(agent.code);
  if (!told.ended) throw new Failed("no end");
}

// The agent stays. Its messages have the cursor.
function metadata(question, told) {
  const agent = agentOf(question, told);
  return () => through(agent, told);
}

// Another agent has the question alone, and is given the run from its beginning.
function replay(question, told) {
  return () => {
    told.beginAgain();
    return through(agentOf(question, told), told);
  };
}

console.error = () => {};
// A broken connection is told to who runs the agent, and thrown once more where nobody catches it.
process.on("uncaughtException", (error) => {
  if (error.message !== "terminated") throw error;
});
console.warn = (...said) => process.stderr.write(`${said.join(" ")}\n`);
run({ metadata, replay });
