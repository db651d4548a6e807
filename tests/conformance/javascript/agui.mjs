// What AG-UI's own HttpAgent sees, with its verifier on.
import { HttpAgent } from "@ag-ui/client";

const { url, scenario, text, more } = JSON.parse(process.argv[2]);
const WEATHER = {
  name: "get_weather",
  description: "The weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};

function agent(threadId, options = {}) {
  const seen = { events: [], warnings: [] };
  const running = new HttpAgent({ url: `${url}/agui`, threadId, ...options });
  running.subscribe({
    onEvent: ({ event }) => seen.events.push(event),
    onRunFailed: ({ error }) => {
      seen.failed = error.message;
    },
  });
  return { running, seen };
}

console.warn = (...said) => {
  throw new Error(`the client warns: ${said.join(" ")}`);
};
console.error = () => {};

const told = ({ running, seen }) => ({
  messages: running.messages,
  state: running.state,
  ...seen,
});

async function run({ running, seen }, parameters) {
  try {
    await running.runAgent(parameters);
  } catch (error) {
    seen.raised = error.message;
  }
}

async function until(condition) {
  const giveUpAt = Date.now() + 20_000;
  while (!condition()) {
    if (Date.now() > giveUpAt) throw new Error("it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const hasSome = ({ running }) => {
  const last = running.messages.at(-1);
  return last.role === "assistant" && (last.content ?? "").length > 20;
};
const ask = (content, options) => {
  const one = agent("thread", options);
  one.running.addMessage({ id: "u1", role: "user", content });
  return one;
};

// A run that its reader has left in the middle.
async function leftInTheMiddle(threadId) {
  const one = agent(threadId);
  one.running.addMessage({ id: "u1", role: "user", content: text });
  const runId = `run-${threadId}`;
  const running = run(one, { runId });
  await until(() => hasSome(one));
  one.running.abortRun();
  await running;
  return { one, runId };
}

const SCENARIOS = {
  async send() {
    const one = ask(text);
    await run(one);
    return told(one);
  },

  async context() {
    const one = ask(text, { initialState: { page: 7 } });
    await run(one, {
      context: [{ description: "The user's city", value: "Zürich" }],
      forwardedProps: { temperature: 0.5, of_the_application: true },
    });
    return told(one);
  },

  async tools() {
    const one = ask(text);
    await run(one, { tools: [WEATHER] });
    const { outcome } = one.seen.events.at(-1);
    for (const toolCallId of outcome.pendingToolCallIds) {
      one.running.addMessage({ id: `t${toolCallId}`, role: "tool", toolCallId, content: "sunny" });
    }
    await run(one, { tools: [WEATHER] });
    return { outcome, ...told(one) };
  },

  // A page that is loaded again has stored the messages: their cursor says where it was.
  async reload() {
    const { one, runId } = await leftInTheMiddle("stored");
    const again = agent("stored", { initialMessages: one.running.messages });
    await run(again, { runId });
    return { partly: one.running.messages.at(-1).content, ...told(again) };
  },

  async reloadWithHeader() {
    const { one, runId } = await leftInTheMiddle("header");
    const cursor = one.running.messages.at(-1).metadata.evenflow.cursor;
    const again = agent("header", {
      initialMessages: one.running.messages.map(({ metadata, ...message }) => message),
      headers: { "Last-Event-ID": cursor },
    });
    await run(again, { runId });
    return { partly: one.running.messages.at(-1).content, ...told(again) };
  },

  // It has stored a part of the answer, and not how far that goes.
  async reloadWithoutCursor() {
    const { one, runId } = await leftInTheMiddle("lost");
    const again = agent("lost", {
      initialMessages: one.running.messages.map(({ metadata, ...message }) => message),
    });
    await run(again, { runId });
    return { partly: one.running.messages.at(-1).content, ...told(again) };
  },

  async secondTab() {
    const one = ask(text);
    const running = run(one, { runId: "shared" });
    await until(() => hasSome(one));
    const other = ask(text);
    await Promise.all([running, run(other, { runId: "shared" })]);
    return { one: told(one), other: told(other) };
  },

  async stop() {
    const one = ask(text);
    const running = run(one, { runId: "stopped" });
    await until(() => hasSome(one));
    const answer = await fetch(`${url}/agui/stop`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ threadId: "thread", runId: "stopped" }),
    });
    await running;
    return { answer: await answer.json(), ...told(one) };
  },

  async leave() {
    const { one } = await leftInTheMiddle("left");
    return told(one);
  },

  async resumeOfInterrupt() {
    const one = ask(text);
    await run(one, { resume: [{ interruptId: "i1", status: "resolved" }] });
    return told(one);
  },
};

console.log(JSON.stringify(await SCENARIOS[scenario]()));
process.exit(0);
