// What the drivers of clients for JavaScript share, for tests/chaos: questions come in as lines of
// JSON, and what came of each goes out as one. tests/chaos/stock_clients/python/asking.py says what
// the fields mean.
import { createInterface } from "node:readline";

export const url = process.argv[2];

// Codes of errors that come again however often one asks.
const LASTING = new Set(["attempts_exhausted", "response_cancelled", "response_expired", "invalid_field"]);
const WAIT_MS = [100, 1_000];

export class Failed extends Error {}

export const TOOL = {
  name: "look_up",
  description: "Looks something up.",
  parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
};

export const nothing = () => ({ reasoning: "", text: "", call_id: "", tool: "", arguments: "" });

class Told {
  said = nothing();
  whole = null;
  broken = [];
  ended = false;
  connections = 0;
  errors = {};
  lasting = null;

  constructor(name) {
    this.name = name;
  }

  // The client is given everything again.
  beginAgain() {
    if (Object.values(this.said).some((has) => has !== "")) this.broken.push(this.said);
    this.said = nothing();
  }

  note(code) {
    this.errors[code] = (this.errors[code] ?? 0) + 1;
  }
}

// The code of an error that the server answered with, if `text` is its body.
export function codeIn(text) {
  try {
    return JSON.parse(text).error.code;
  } catch {
    return undefined;
  }
}

function codeOf(error) {
  if (error.message.includes("<html>")) return "load balancer";
  return codeIn(error.message) ?? error.cause?.code ?? error.message.slice(0, 60);
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function ask(question, ways) {
  const told = new Told(question.name);
  const client = ways[question.way](question, told);
  let isOver = false;
  const over = wait(1_000 * question.seconds).then(() => {
    isOver = true;
    throw new Failed("given up");
  });
  while (!told.ended && told.lasting === null && !isOver) {
    told.connections += 1;
    try {
      await Promise.race([client(), over]);
    } catch (error) {
      const code = codeOf(error);
      told.note(code);
      if (LASTING.has(code)) told.lasting = code;
      await wait(WAIT_MS[0] + Math.random() * (WAIT_MS[1] - WAIT_MS[0]));
    }
  }
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

// `ways` has a function for each way of coming back. Given a question and its `Told`, it returns
// another that makes one connection.
export function run(ways) {
  createInterface({ input: process.stdin }).on("line", (line) => ask(JSON.parse(line), ways));
  process.stdout.write("ready\n");
}
