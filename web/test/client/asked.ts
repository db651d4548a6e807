import { vi } from "vitest";
import type { AnswerEvent } from "../../src/client/answer-events.ts";
import type { Client } from "../../src/client/client.ts";

/** A question that is being answered, with everything that has happened to it so far. */
export class Asked {
  readonly events: AnswerEvent[] = [];
  error: unknown;
  ended = false;

  constructor(client: Client, question = "What is Evenflow?") {
    void this.#read(client, question);
  }

  async #read(client: Client, question: string): Promise<void> {
    try {
      for await (const event of client.ask(question)) this.events.push(event);
    } catch (error) {
      this.error = error;
    }
    this.ended = true;
  }

  /** The answer's text, as a page that follows the events shows it. */
  get text(): string {
    let text = "";
    for (const event of this.events) {
      if (event.type === "text") text += event.text;
      if (event.type === "restarted") text = event.text;
    }
    return text;
  }

  of<T extends AnswerEvent["type"]>(type: T): Extract<AnswerEvent, { type: T }>[] {
    return this.events.filter((event): event is Extract<AnswerEvent, { type: T }> => event.type === type);
  }
}

/** Lets everything happen that is due within `ms` milliseconds of the fake clock. */
export async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}
