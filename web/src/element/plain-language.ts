/** As much of the client's errors as is looked at: they are told apart by `kind`. */
interface ClientError extends Error {
  readonly kind: string;
  readonly body?: { readonly code: string; readonly type: string };
}

/** An error as a person should read it. */
export interface Explanation {
  readonly what: string;
  /** What the person can do about it. */
  readonly remedy: string;
  /** Whether asking the same again may help. */
  readonly askAgain: boolean;
}

const BUSY: Explanation = {
  what: "Evenflow is very busy right now.",
  remedy: "Your question was tried several times and not accepted. Wait a moment, then ask again.",
  askAgain: true,
};
const TOO_SLOW: Explanation = {
  what: "The model took too long.",
  remedy: "This usually passes. Ask again.",
  askAgain: true,
};
const GONE: Explanation = {
  what: "The server no longer has this answer.",
  remedy: "Answers are kept for a few minutes after they end. Ask again for a new one.",
  askAgain: true,
};

const COMING_BACK: Explanation = {
  what: "Many people are coming back at the same moment.",
  remedy: "Wait a few seconds, then ask again.",
  askAgain: true,
};
const ELSEWHERE: Explanation = {
  what: "Another server is writing this answer, and it could not be reached.",
  remedy: "Your message is kept. Wait a moment, then ask again.",
  askAgain: true,
};
const ATTEMPTS_EXHAUSTED: Explanation = {
  what: "Several servers failed in the middle of this answer.",
  remedy: "Your message is kept, and can be sent again. Whatever has arrived stays above.",
  askAgain: true,
};

/** Error codes of the protocol that have something of their own to say. */
const BY_CODE: Readonly<Record<string, Explanation>> = {
  message_too_large: {
    what: "This question is too long.",
    remedy: "Shorten it to less than 64 KB and ask again.",
    askAgain: false,
  },
  causal_violation: {
    what: "This conversation went on somewhere else.",
    remedy: "Ask again to go on from there, or open the page in a new tab to start a new one.",
    askAgain: true,
  },
  model_refused: {
    what: "The model declined to answer this.",
    remedy: "Try to put the question another way.",
    askAgain: false,
  },
  first_token_timeout: TOO_SLOW,
  model_timeout: TOO_SLOW,
  response_not_found: GONE,
  response_expired: GONE,
  response_elsewhere: ELSEWHERE,
  reconnect_storm: COMING_BACK,
  attempts_exhausted: ATTEMPTS_EXHAUSTED,
};

const PAGE_TOO_OLD: Explanation = {
  what: "This page and the server do not understand each other.",
  remedy: "The page may be an old copy. Reload it and ask again.",
  askAgain: false,
};

const CONNECTION: Explanation = {
  what: "The server cannot be reached.",
  remedy: "Check your network, then ask again. Whatever has arrived stays above.",
  askAgain: true,
};
const REPLACED: Explanation = {
  what: "This conversation was opened in another place.",
  remedy: "Carry on there, or ask again to go on here.",
  askAgain: true,
};
const STILL_ANSWERING: Explanation = {
  what: "An answer is still on its way.",
  remedy: "Stop it, or wait for its end.",
  askAgain: false,
};
const CLOSED: Explanation = {
  what: "This conversation was closed.",
  remedy: "Reload the page to go on with it, or open the page in a new tab to start a new one.",
  askAgain: false,
};
const FAILED: Explanation = {
  what: "The model failed before the answer was complete.",
  remedy: "Whatever has arrived stays above. Ask again for a new answer.",
  askAgain: true,
};
const OUR_OWN_FAULT: Explanation = {
  what: "Something went wrong in this page.",
  remedy: "Reload the page and ask again.",
  askAgain: false,
};

/** Says in plain language what went wrong, and what to do. */
export function explain(error: unknown): Explanation {
  if (!isClientError(error)) return OUR_OWN_FAULT;
  switch (error.kind) {
    case "connection":
      return CONNECTION;
    case "protocol":
      return PAGE_TOO_OLD;
    case "replaced":
      return REPLACED;
    case "closed":
      return CLOSED;
    case "busy":
      return STILL_ANSWERING;
    case "answer":
      return BY_CODE[error.body?.code ?? ""] ?? FAILED;
    case "refused":
      return BY_CODE[error.body?.code ?? ""] ?? explainRefusal(error.body?.type ?? "");
    default:
      return OUR_OWN_FAULT;
  }
}

function isClientError(error: unknown): error is ClientError {
  return error instanceof Error && "kind" in error && typeof error.kind === "string";
}

function explainRefusal(type: string): Explanation {
  switch (type) {
    case "rate_limit_error":
    case "overloaded_error":
      return BUSY;
    case "authentication_error":
      return {
        what: "The server did not let this page in.",
        remedy: "Ask again. If that does not help, reload the page, and sign in again where it has a login.",
        askAgain: true,
      };
    default:
      return PAGE_TOO_OLD;
  }
}
