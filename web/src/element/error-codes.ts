/** An error as a person should read it. */
export interface Explanation {
  readonly what: string;
  /** What the person can do about it. */
  readonly remedy: string;
  /** Whether asking the same again may help. */
  readonly askAgain: boolean;
  /** Whether the model can go on where the answer stopped. */
  readonly goOn?: boolean;
  /** Whether the question was not taken, and may be changed. */
  readonly canEdit?: boolean;
}

const TOO_SLOW: Explanation = {
  what: "The model took too long.",
  remedy: "This usually passes. Try again.",
  askAgain: true,
};
const GONE: Explanation = {
  what: "The server no longer has this answer.",
  remedy: "It keeps answers for a limited time. Try again for a new one.",
  askAgain: true,
};

const DAY_MS = 86_400_000;

/**
 * A budget of a day or a month of UTC is used up. `waitMs`: until it begins anew, where that is told. Within the last day
 * of a month both begin anew at once.
 */
export function budgetUsedUp(waitMs: number | undefined, now: Date): Explanation {
  const [period, moment] =
    waitMs === undefined
      ? ["", "with the next day or month of UTC"]
      : waitMs <= DAY_MS
        ? [" for today", "at 00:00 UTC"]
        : [" for this month", `on ${nextMonth(now)}, 00:00 UTC`];
  return { what: `Your budget${period} is used up.`, remedy: `It begins anew ${moment}.`, askAgain: true };
}

function nextMonth(now: Date): string {
  const first = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
  return new Intl.DateTimeFormat("en", { month: "long", day: "numeric", timeZone: "UTC" }).format(first);
}

/** Nothing that the page's reader does changes that. */
export const ORIGIN_NOT_ALLOWED: Explanation = {
  what: "This page may not use this server.",
  remedy: "Whoever runs the server must allow this page's address. The browser's console says how.",
  askAgain: false,
};

/** Error codes of the protocol that have something of their own to say. */
export const BY_CODE: ReadonlyMap<string, Explanation> = new Map(
  Object.entries({
    message_too_large: {
      what: "This question is too long.",
      remedy: "Shorten it to less than 64 KB and ask again.",
      askAgain: false,
    },
    causal_violation: {
      what: "This conversation went on somewhere else.",
      remedy: "Try again to go on from there, or open the page in a new tab to start a new one.",
      askAgain: true,
    },
    model_refused: {
      what: "The model declined to answer this.",
      remedy: "Try to put the question another way.",
      askAgain: false,
    },
    model_not_set_up: {
      what: "This server's model is not set up.",
      remedy: "The operator has been told. Until that is mended no question can be answered.",
      askAgain: false,
    },
    insufficient_quota: {
      what: "This server has used up its quota at the model.",
      remedy: "Whoever runs the server has to renew it. Until then no question can be answered.",
      askAgain: false,
    },
    upstream_throttled: {
      what: "The model is asked too much right now.",
      remedy: "Wait a minute, then try again.",
      askAgain: true,
    },
    upstream_failed: {
      what: "The model failed before the answer was complete.",
      remedy: "This usually passes.",
      askAgain: true,
    },
    queue_timeout: {
      what: "Too many questions were waiting for the model.",
      remedy: "Yours has waited for as long as it may, and was not answered. Try again in a minute.",
      askAgain: true,
    },
    queue_displaced: {
      what: "Too many questions were waiting for the model.",
      remedy: "Yours gave its place to others, and was not answered. Try again in a minute.",
      askAgain: true,
    },
    context_length_exceeded: {
      what: "This conversation is too long for the model.",
      remedy: "Ask a shorter question, or open the page in a new tab to start a new conversation.",
      askAgain: false,
    },
    content_policy_violation: {
      what: "The model's content policy does not allow this question.",
      remedy: "Try to put it another way.",
      askAgain: false,
    },
    origin_not_allowed: ORIGIN_NOT_ALLOWED,
    first_token_timeout: TOO_SLOW,
    model_timeout: TOO_SLOW,
    response_not_found: GONE,
    response_expired: GONE,
    response_elsewhere: {
      what: "Another server is writing this answer, and it could not be reached.",
      remedy: "Your message is kept. Wait a moment, then try again.",
      askAgain: true,
    },
    reconnect_storm: {
      what: "Many people are coming back at the same moment.",
      remedy: "Wait a few seconds, then try again.",
      askAgain: true,
    },
    attempts_exhausted: {
      what: "Several servers failed in the middle of this answer.",
      remedy: "Your message is kept, and can be sent again. Whatever has arrived stays above.",
      askAgain: true,
    },
  }),
);
