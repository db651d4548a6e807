// What a reader has before them: the element, a page with the client library, or AI SDK's `useChat`, by `#page=` of the address.
// `reader` does what a person does, and tells what is on the screen.
import { now, pass, sleep, until } from "./clock.js";

const LONGEST_START_MS = 60_000;
const PAGES = { element, client, useChat };
const pageName = new URLSearchParams(location.hash.slice(1)).get("page");

/** README's element, on the server's own origin. */
async function element() {
  await import("/evenflow-chat.js");
  const chat = document.body.appendChild(document.createElement("evenflow-chat"));
  const root = chat.shadowRoot;
  const all = (selector) => [...root.querySelectorAll(selector)];
  const answers = () => all('[data-testid="answer"]');
  const texts = (selector) => all(selector).map((found) => found.textContent);
  let isOver = false;
  chat.addEventListener("evenflow-end", () => {
    isOver = true;
  });
  await until(() => chat.client !== undefined, LONGEST_START_MS);
  return {
    root,
    ask: (question) => chat.ask(question),
    texts: () => answers().map((answer) => answer.textContent),
    isOver: () => isOver,
    problem: () => texts('[data-testid="error"]')[0] ?? texts(".note").find((text) => /Incomplete|Stopped|Cut/.test(text)),
    notices: () => texts('.notice, [data-testid="status"]'),
    responseId: () => answers().at(-1)?.dataset.responseId,
    transport: () => chat.client.transport,
    reconnect: () => root.querySelector(".reconnect").click(),
    canReconnect: () => root.querySelector(".reconnect")?.checkVisibility() === true,
  };
}

/** An application that uses the client library. */
async function client() {
  const { connect } = await import("/client.js");
  const root = document.body.appendChild(document.createElement("pre"));
  const without = new URLSearchParams(location.hash.slice(1)).get("without");
  const connected = connect({ transports: ["websocket", "sse", "long-poll"].filter((name) => name !== without) });
  let [answer, isOver, problem] = [undefined, false, undefined];
  async function ask(question) {
    answer = connected.ask(question);
    try {
      for await (const event of answer) {
        if (event.type === "delta") root.append(event.text);
        if (event.type === "restarted") root.textContent = root.textContent.slice(0, event.keep);
        if (event.type === "completed" && event.finishReason !== "stop") problem = event.finishReason;
      }
    } catch (error) {
      problem = String(error);
    }
    isOver = true;
  }
  return {
    root,
    ask,
    texts: () => (answer === undefined ? [] : [root.textContent]),
    isOver: () => isOver,
    problem: () => problem,
    notices: () => [],
    responseId: () => answer?.responseId,
    transport: () => connected.transport,
  };
}

/** AI SDK's chat for React with Evenflow's transport. */
async function useChat() {
  await import("/assets/chat.js");
  await until(() => document.querySelector("main form") !== null, LONGEST_START_MS);
  const root = document.querySelector("main");
  const answers = () => [...root.querySelectorAll(".assistant")];
  const problem = () => root.querySelector('[role="alert"]').textContent || undefined;
  return {
    root,
    ask(question) {
      const form = root.querySelector("form");
      form.elements.text.value = question;
      form.requestSubmit();
    },
    texts: () => answers().map((answer) => answer.textContent),
    isOver: () => problem() !== undefined || (answers().length > 0 && root.dataset.status === "ready"),
    problem,
    notices: () => [],
    responseId: () => answers().at(-1)?.dataset.id,
    transport: () => "sse",
  };
}

const page = await PAGES[pageName]();
const words = (text = "") => text.replace(/\s+/g, " ").trim();
/** Whether the browser believes that it has a network. */
let isOnline = true;
Object.defineProperty(navigator, "onLine", { get: () => isOnline });

window.reader = {
  ...page,
  pass,
  sleep,
  until,
  /** [milliseconds since 1970, characters] for each time that the last answer has changed on the screen. */
  changes: [],
  /** What was on the screen where the text has not gone on from it. */
  takenBack: [],
  text: () => words(page.texts().at(-1)),
  /** The browser finds out that it has, or has no, network. */
  setOnline(online) {
    isOnline = online;
    dispatchEvent(new Event(online ? "online" : "offline"));
  },
  state: () => ({
    texts: page.texts().map(words),
    isOver: page.isOver(),
    problem: page.problem() ?? null,
    notices: page.notices(),
    responseId: page.responseId() ?? null,
    token: /"token":"([^"]+)"/.exec(Object.values(sessionStorage).join())?.[1] ?? null,
    transport: page.transport(),
    changes: reader.changes,
    takenBack: reader.takenBack,
  }),
};

let before = "";
function look() {
  const text = reader.text();
  if (text === before) return;
  // A first "1." is the beginning of a list, until more comes.
  if (!text.startsWith(before) && before.length > 3) reader.takenBack.push([before, text]);
  reader.changes.push([now(), text.length]);
  before = text;
}
new MutationObserver(look).observe(page.root, { subtree: true, childList: true, characterData: true });
