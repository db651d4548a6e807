import { AR } from "./strings/ar.ts";
import { DE } from "./strings/de.ts";
import { EN } from "./strings/en.ts";
import { ES } from "./strings/es.ts";
import { JA } from "./strings/ja.ts";

/** What went wrong, and what the reader can do about it. */
export type Explained = readonly [what: string, remedy: string];

/** All texts of the element. Functions insert numbers and names by the rules of the language. */
export interface Strings {
  // The text box and the frame.
  placeholder: string;
  yourQuestion: string;
  yourMessage: string;
  ask: string;
  stop: string;
  hint: string;
  editingQuestion: string;
  cancelEdit: string;
  conversation: string;
  conversationSoFar: string;
  earlierMessages: string;
  latest: string;
  goToEnd: string;

  // The answer.
  answer: string;
  copy: string;
  copied: string;
  notCopied: string;
  goOn: string;
  /** The question that *Continue* asks. */
  goOnQuestion: string;
  retry: string;
  tryAgain: string;
  editQuestion: string;
  previousVersion: string;
  nextVersion: string;
  versions: string;
  versionOf: (version: number, count: number) => string;
  problem: string;
  questionNotKept: string;
  thinking: string;
  thoughts: string;
  thoughtFor: (seconds: number) => string;
  toolArguments: string;
  toolResult: string;
  toolCalling: string;
  toolRunning: string;
  toolCalled: string;
  toolDone: string;
  sources: string;
  table: string;
  plainText: string;
  codeIn: (language: string) => string;
  copyCodeIn: (language: string) => string;
  completedTask: string;
  incompleteTask: string;
  alertNote: string;
  alertTip: string;
  alertImportant: string;
  alertWarning: string;
  alertCaution: string;
  footnote: (label: string) => string;
  backToText: string;
  /** An image without a name. */
  image: string;
  loadImageFrom: (host: string) => string;
  diagram: string;
  diagramSource: string;

  // The status.
  ready: string;
  connecting: string;
  waiting: string;
  streaming: string;
  complete: string;
  stopped: string;
  notDelivered: string;
  connectsWhenAsked: string;
  closed: string;
  notAllowed: string;
  sending: string;
  catchingUp: string;
  connectionLost: string;
  offline: string;
  unreachable: string;
  /** For a server that has never responded. */
  nothingAnswers: string;
  reconnectNow: string;
  busyUntil: (ms: number) => string;
  usingTool: (name: string) => string;
  resultOfTool: (name: string) => string;
  /** `expectedSeconds`: `null` if unknown. The next answer has the position 1. */
  queued: (position: number, expectedSeconds: number | null) => string;
  historyDropped: string;
  historyDroppedByModel: string;

  // The end of an answer.
  took: (ms: number) => string;
  tokens: (count: number) => string;
  abandoned: string;
  cut: string;
  cutAtLength: string;
  cutByBudget: string;
  stoppedByFilter: string;
  readyMade: string;
  incomplete: string;
  incompleteBecause: (what: string) => string;
  answerComplete: string;
  answerStopped: string;
  answerIncomplete: string;
  answerBeginsAgain: string;

  // Errors. `until` is a time in UTC.
  errors: Readonly<Record<ErrorName, Explained>>;
  answerFailed: string;
  questionNotTaken: string;
  tryAgainIn: (ms: number) => string;
  budgetUsedUp: string;
  dayBudgetUsedUp: string;
  monthBudgetUsedUp: string;
  budgetBeginsAnew: string;
  budgetBeginsAtMidnight: string;
  budgetBeginsOn: (until: Date) => string;
}

export type ErrorName =
  | "attemptsExhausted"
  | "busy"
  | "closed"
  | "contentPolicy"
  | "contextTooLong"
  | "conversationMoved"
  | "gone"
  | "messageTooLarge"
  | "modelFailed"
  | "modelNotSetUp"
  | "modelRefused"
  | "modelThrottled"
  | "modelTooSlow"
  | "notLetIn"
  | "notRepeated"
  | "originNotAllowed"
  | "otherServer"
  | "pageFault"
  | "pageTooOld"
  | "queueDisplaced"
  | "queueTimeout"
  | "quotaUsedUp"
  | "reconnectStorm"
  | "replaced"
  | "restIsLost"
  | "stillAnswering"
  | "unreachable";

/** Replacements for some texts of the language. */
export type SomeStrings = Partial<Omit<Strings, "errors">> & { readonly errors?: Partial<Strings["errors"]> };

export const ENGLISH: Strings = EN;

/** Texts by the first part of a language tag. */
export const LANGUAGES: Readonly<Record<string, Strings>> = { ar: AR, de: DE, en: EN, es: ES, ja: JA };

/** The languages with texts that are written from right to left. */
const RIGHT_TO_LEFT = ["ar"];

/** The texts of a language, or English for an unknown one, with replacements. */
export function stringsIn(tag: string, own: SomeStrings = {}): Strings {
  const strings = LANGUAGES[languageOf(tag)] ?? ENGLISH;
  return { ...strings, ...own, errors: { ...strings.errors, ...own.errors } };
}

/** The direction of a language with texts; `undefined` for others: then the page's applies. */
export function directionOf(tag: string): "rtl" | undefined {
  return RIGHT_TO_LEFT.includes(languageOf(tag)) ? "rtl" : undefined;
}

/** The language of an element: the nearest `lang`, through shadow roots up to the document. */
export function languageAround(element: Element): string {
  const named = element.closest("[lang]");
  if (named !== null) return named.getAttribute("lang") ?? "";
  const root = element.getRootNode();
  return root instanceof ShadowRoot ? languageAround(root.host) : "";
}

function languageOf(tag: string): string {
  return tag.toLowerCase().split("-", 1)[0] ?? "";
}
