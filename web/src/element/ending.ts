import type { ChatEvent } from "./chat-client.ts";
import type { State } from "./status-view.ts";
import type { Strings } from "./strings.ts";

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

type Word = "abandoned" | "stopped" | "cut" | "cutAtLength" | "cutByBudget" | "stoppedByFilter";

const ENDINGS: Readonly<Record<string, { state?: State; label?: Word; said: Word; canGoOn?: boolean }>> = {
  cancelled: { state: "cancelled", said: "stopped" },
  abandoned: { state: "cancelled", said: "abandoned", canGoOn: true },
  length: { label: "cut", said: "cutAtLength", canGoOn: true },
  budget: { label: "cut", said: "cutByBudget" },
  content_filter: { label: "stopped", said: "stoppedByFilter" },
};

/** Says how an answer has ended, in words; `tookMs` is how long it took, as far as that is known. */
export function endingOf(event: Extract<ChatEvent, { type: "completed" }>, strings: Strings, tookMs?: number): Ending {
  const { finishReason, usage, degraded } = event;
  const ending = Object.hasOwn(ENDINGS, finishReason) ? ENDINGS[finishReason] : undefined;
  const said = ending === undefined ? undefined : strings[ending.said];
  const took = tookMs === undefined ? undefined : strings.took(tookMs);
  const parts = [said, took].filter((part) => part !== undefined);
  if (usage !== null) parts.push(strings.tokens(usage.completion_tokens));
  if (degraded) parts.push(strings.readyMade);
  return {
    state: ending?.state ?? "done",
    ...(ending?.label === undefined ? {} : { label: strings[ending.label] }),
    note: parts.join(" · "),
    announcement:
      said === undefined ? strings.answerComplete : finishReason === "cancelled" ? strings.answerStopped : `${said}.`,
    canGoOn: ending?.canGoOn ?? false,
  };
}
