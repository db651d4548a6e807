import { vi } from "vitest";
import type { Answer, AnswerEvent, AnswerPart, Client } from "../../src/client/api.ts";

/** An answer that is being delivered, with everything that has happened to it so far. */
export class Asked {
  readonly answer: Answer;
  readonly events: AnswerEvent[] = [];
  error: unknown;
  ended = false;

  constructor(client: Client, question = "What is Evenflow?") {
    this.answer = client.ask(question);
    void this.#read();
  }

  async #read(): Promise<void> {
    try {
      for await (const event of this.answer) this.events.push(event);
    } catch (error) {
      this.error = error;
    }
    this.ended = true;
  }

  /** The answer's text, as a page that follows the events shows it. */
  get text(): string {
    let text = "";
    for (const event of this.events) {
      if (event.type === "delta") text += event.text;
      if (event.type === "restarted") text = text.slice(0, event.keep);
    }
    return text;
  }

  /** The answer's parts, as such a page has them. */
  get parts(): AnswerPart[] {
    let parts: AnswerPart[] = [];
    for (const event of this.events) {
      if (event.type === "part") parts[event.position] = event.part;
      if (event.type === "restarted") parts = [...event.parts];
      if (event.type !== "delta" || event.text === "") continue;
      const last = parts.at(-1);
      if (last?.type === "text") parts[parts.length - 1] = { ...last, text: last.text + event.text };
      else parts.push({ type: "text", text: event.text });
    }
    return parts;
  }

  of<T extends AnswerEvent["type"]>(type: T): Extract<AnswerEvent, { type: T }>[] {
    return this.events.filter((event): event is Extract<AnswerEvent, { type: T }> => event.type === type);
  }
}

/** Lets everything happen that is due within `ms` milliseconds of the fake clock. */
export async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}
