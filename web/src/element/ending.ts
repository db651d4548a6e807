import type { ChatEvent } from "./chat-client.ts";
import type { State } from "./status-view.ts";

/** How an answer that has ended without an error is told. */
export interface Ending {
  readonly state: State;
  /** The status, where its usual words would not be true. */
  readonly label?: string;
  /** The line below the answer. */
  readonly note: string;
  readonly announcement: string;
  /** Whether the model had more to say. */
  readonly canGoOn: boolean;
}

const ENDINGS: Readonly<Record<string, { state?: State; label?: string; said: string; canGoOn?: boolean }>> = {
  cancelled: { state: "cancelled", said: "Stopped" },
  abandoned: { state: "cancelled", said: "Nobody was reading, so the model was stopped", canGoOn: true },
  length: { label: "Cut", said: "The answer was cut at its length limit", canGoOn: true },
  budget: { label: "Cut", said: "The answer was cut: the budget for answers is used up" },
  content_filter: { label: "Stopped", said: "The answer was stopped by the content filter" },
};

/** Says how an answer has ended, in words; `took` is how long it took, as far as that is known. */
export function endingOf(event: Extract<ChatEvent, { type: "completed" }>, took?: string): Ending {
  const { finishReason, usage, degraded } = event;
  const ending = Object.hasOwn(ENDINGS, finishReason) ? ENDINGS[finishReason] : undefined;
  const parts = [ending?.said, took].filter((part) => part !== undefined);
  if (usage !== null) parts.push(`${usage.completion_tokens} tokens`);
  if (degraded) parts.push("a ready-made answer, not the model's");
  return {
    state: ending?.state ?? "done",
    ...(ending?.label === undefined ? {} : { label: ending.label }),
    note: parts.join(" · "),
    announcement:
      ending === undefined ? "Answer complete." : finishReason === "cancelled" ? "Answer stopped." : `${ending.said}.`,
    canGoOn: ending?.canGoOn ?? false,
  };
}
