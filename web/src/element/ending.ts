import type { ChatEvent } from "./chat-client.ts";
import type { State } from "./status-view.ts";
import type { Strings } from "./strings.ts";

/** How an answer that ended without an error is shown. */
export interface Ending {
  readonly state: State;
  /** The status, if the usual text would be wrong. */
  readonly label?: string;
  /** The line below the answer. */
  readonly note: string;
  readonly announcement: string;
  /** Whether the model can continue the answer. */
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

/** Describes how an answer has ended; `tookMs` is its duration, if known. */
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
