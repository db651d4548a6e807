// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedAnswer, ScriptedClient } from "./scripted-client.ts";

let scene: ChatScene;
let client: ScriptedClient;

beforeEach(() => {
  scene = new ChatScene();
  client = new ScriptedClient();
});

/** What ends an answer that has begun. */
function failed(code: string): Error {
  const body = { type: "upstream_error", code, message: "in the server's words" };
  return Object.assign(new Error(code), { kind: "answer", body });
}

function failure(): Error {
  return Object.assign(new Error("no route"), { kind: "connection" });
}

describe("a question", () => {
  it("that was typed before there is a client stays in the box", () => {
    scene.type("Early?");
    expect(scene.box.value).toBe("Early?");
    scene.chat.client = client;
    scene.press({ key: "Enter" });
    expect(client.last.question).toBe("Early?");
    expect(scene.box.value).toBe("");
  });

  it("that failed can be tried again until another one is asked, behind which it could replace nothing", async () => {
    scene.chat.client = client;
    scene.chat.ask("First?");
    client.last.tell(failure());
    await settle();
    expect(scene.button("Try again")).toBeDefined();
    scene.chat.ask("Second?");
    expect(scene.button("Try again")).toBeUndefined();
  });
});

describe("a question that is refused and can't be asked like this again", () => {
  const body = { type: "invalid_request_error", code: "message_too_large", message: "too large" };

  async function refused(typed = ""): Promise<void> {
    scene.chat.client = client;
    scene.type("A whole book");
    scene.box.value = typed;
    client.last.tell(Object.assign(new Error(body.message), { kind: "refused", body }));
    await settle();
  }

  it("is in the box again, and what is asked then takes its place", async () => {
    await refused();
    expect(scene.conversation).toEqual(["A whole book", "This question is too long."]);
    expect([scene.box.value, scene.focused]).toEqual(["A whole book", "question"]);
    scene.type("A page");
    expect([client.last.question, client.last.replaces]).toEqual(["A page", undefined]);
    client.last.accept();
    client.last.say("Read.");
    client.last.complete();
    await settle();
    expect(scene.conversation).toEqual(["A page", "Read.", expect.any(String)]);
  });

  it("can be edited, and leaves alone what was typed meanwhile", async () => {
    await refused("Next");
    expect(scene.box.value).toBe("Next");
    scene.button("Edit question", ".error")?.click();
    expect(scene.box.value).toBe("A whole book");
  });
});

describe("an error behind text", () => {
  beforeEach(async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.say("So far");
    client.last.tell(failed("upstream_failed"));
    await settle();
  });

  it("leaves the text, and is told below it, with two offers", () => {
    expect(scene.conversation).toEqual(["Well?", "So far", "Incomplete", expect.stringContaining("model failed")]);
    expect([scene.button("Continue"), scene.button("Try again")]).not.toContain(undefined);
  });

  it("has the model go on, if the reader wishes so", () => {
    scene.button("Continue", ".error")?.click();
    expect(client.last.question).toBe("Please continue your answer where it stopped.");
    expect(client.last.replaces).toBeUndefined();
    expect(scene.conversation.slice(0, 3)).toEqual(["Well?", "So far", "Incomplete"]);
  });

  it("lets another try take the place of the text only when that has something to show", async () => {
    scene.button("Try again")?.click();
    expect([client.last.question, client.last.replaces]).toEqual(["Well?", "m1"]);
    expect(scene.conversation).toEqual(["Well?", "So far", "Incomplete", "", ""]);
    client.last.accept();
    client.last.say("Anew");
    await settle();
    expect(scene.conversation).toEqual(["Well?", "Anew", ""]);
  });

  it("keeps the text when another try brings none, and can be tried again after that", async () => {
    scene.button("Try again")?.click();
    client.last.tell(failure());
    await settle();
    expect(scene.conversation).toEqual(["Well?", "So far", "Incomplete", "The server cannot be reached."]);
    scene.button("Try again")?.click();
    expect(client.last.replaces, "the one between them never got there").toBe("m1");
    client.last.accept();
    client.last.tell(failed("model_timeout"));
    await settle();
    scene.button("Try again")?.click();
    expect(client.last.replaces).toBe("m3");
    client.last.say("At last");
    client.last.complete();
    await settle();
    expect(scene.conversation).toEqual(["Well?", "At last", expect.any(String)]);
  });
});

describe("an answer whose delivery has failed", () => {
  beforeEach(async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.say("So far");
    client.last.tell(Object.assign(new Error("a newer connection"), { kind: "replaced" }));
    await settle();
    scene.button("Try again")?.click();
  });

  it("is read before the model is called again", async () => {
    expect(client.asked).toHaveLength(1);
    const [followed] = client.followed;
    expect([followed?.question, followed?.messageId]).toEqual(["Well?", "m1"]);
    followed?.say("So far, and to its end");
    followed?.complete();
    await settle();
    expect(scene.conversation).toEqual(["Well?", "So far, and to its end", expect.any(String)]);
    expect(client.asked).toHaveLength(1);
  });

  it("is asked for anew where the server has it no more", async () => {
    const body = { type: "not_found_error", code: "response_expired", message: "gone" };
    client.followed[0]?.tell(Object.assign(new Error("gone"), { kind: "refused", body }));
    await settle();
    expect(client.asked.map(({ question, replaces }) => [question, replaces])).toEqual([
      ["Well?", undefined],
      ["Well?", "m1"],
    ]);
    client.last.say("Anew");
    client.last.complete();
    await settle();
    expect(scene.conversation).toEqual(["Well?", "Anew", expect.any(String)]);
    expect(scene.chat.isBusy).toBe(false);
  });
});

describe("a budget that is used up", () => {
  it("is said in plain words, and when it begins anew", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    const body = { type: "rate_limit_error", code: "budget_exhausted", message: "no room", retry_after_ms: 3_600_000 };
    client.last.tell(Object.assign(new Error(body.message), { kind: "refused", body }));
    await settle();
    expect(scene.lines(scene.find("error", HTMLElement))).toEqual([
      "Your budget for today is used up.",
      "It begins anew at 00:00 UTC.",
      "Try again",
    ]);
    expect([scene.isStoppable, scene.chat.isBusy]).toEqual([false, false]);
  });
});

describe("the end of an answer", () => {
  it.each([
    ["length", "The answer was cut at its length limit", true],
    ["abandoned", "Nobody was reading, so the model was stopped", true],
    ["budget", "The answer was cut: the budget for answers is used up", false],
    ["content_filter", "The answer was stopped by the content filter", false],
    ["stop", /^\d/, false],
    ["constructor", /^\d/, false],
  ])("by %s is said in words", async (reason, note, canGoOn) => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.say("Text");
    client.last.complete(reason);
    await settle();
    expect(scene.conversation.at(-1)).toMatch(note);
    expect(scene.find("go-on", HTMLButtonElement).hidden).toBe(!canGoOn);
  });

  it("lets Retry replace the answer", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.say("One");
    client.last.complete();
    await settle();
    scene.find("retry", HTMLButtonElement).click();
    expect(client.last.replaces).toBe("m1");
    client.last.say("Two");
    client.last.complete();
    await settle();
    expect(scene.conversation).toEqual(["Well?", "Two", expect.any(String)]);
  });
});

describe("the status", () => {
  it("says where the question waits for the model", async () => {
    scene.chat.client = client;
    scene.chat.ask("Why?");
    client.last.accept();
    client.last.tell({ type: "queued", position: 3, expectedSeconds: 4 });
    await settle();
    expect(scene.status).toBe("Number 3 in the queue, about 4 s");
    client.last.tell({ type: "queued", position: 1, expectedSeconds: null });
    await settle();
    expect(scene.status).toBe("Next in the queue");
  });

  it("does not claim that anything is tried while nothing is asked", () => {
    scene.chat.client = client;
    client.enter("waiting");
    expect(scene.status).toBe("Connects when you ask");
  });

  it("says that it tries again while an answer is under way", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    client.enter("waiting");
    expect(scene.status).toBe("Connection lost, reconnecting…");
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    expect(scene.status).toBe("The server can't be reached. Trying again…");
    client.last.tell({ type: "resumed" });
    await settle();
    expect(scene.status).toBe("Waiting for the first word…");
  });

  it("says at once that a server which was never reached can't be", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    expect(scene.status).toBe("The server can't be reached. Trying again…");
  });

  it("says after some seconds that nothing answers at the address, once to the page's maker, and tries on", async () => {
    const told = vi.spyOn(console, "error").mockImplementation(() => {});
    const lost = { type: "reconnecting", delayMs: 500, reason: "no key: TypeError: x is undefined" } as const;
    client.connection = "waiting";
    scene.chat.client = client;
    const now = performance.now();
    scene.chat.ask("Well?");
    client.last.tell(lost);
    await settle();
    expect([scene.status, told.mock.calls]).toEqual(["The server can't be reached. Trying again…", []]);
    vi.spyOn(performance, "now").mockReturnValue(now + 9_000);
    client.last.tell(lost, lost);
    await settle();
    expect(scene.status).toBe("Nothing answers at this chat's address. It may be wrong. Trying again…");
    expect(scene.button("Reconnect now")).toBeDefined();
    expect(told.mock.calls).toEqual([[expect.stringContaining(lost.reason)]]);
    expect([client.last.isStopped, scene.chat.isBusy]).toEqual([false, true]);
    vi.restoreAllMocks();
  });

  it.each(["open", "resumed"])("does not doubt the address of a server that has answered: %s", async (how) => {
    client.connection = how === "open" ? "open" : "waiting";
    client.isResumed = how === "resumed";
    scene.chat.client = client;
    const now = performance.now();
    scene.chat.ask("Well?");
    vi.spyOn(performance, "now").mockReturnValue(now + 9_000);
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    expect(scene.status).toBe("The server can't be reached. Trying again…");
    vi.restoreAllMocks();
  });

  it("says nothing of transports", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.tell({ type: "transport", transport: "sse", fallback: true });
    client.last.accept();
    client.last.say("Text");
    await settle();
    expect(scene.notices).toEqual([]);
  });

  it("offers to try at once while there is no connection, and asks nothing by that", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.accept();
    await settle();
    expect(scene.button("Reconnect now")).toBeUndefined();
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    scene.button("Reconnect now")?.click();
    expect([client.reconnects, client.asked.length]).toEqual([1, 1]);
    client.last.tell({ type: "resumed" });
    await settle();
    expect(scene.button("Reconnect now")).toBeUndefined();
  });

  it("says while nothing is asked that the server can't be reached, until it can", async () => {
    vi.useFakeTimers();
    let isThere = false;
    vi.stubGlobal("fetch", async () => {
      if (!isThere) throw new TypeError("Failed to fetch");
      return new Response();
    });
    scene.chat.setAttribute("url", location.origin);
    scene.chat.client = client;
    client.enter("waiting");
    await vi.advanceTimersByTimeAsync(10);
    expect(scene.status).toBe("The server can't be reached. Trying again…");
    isThere = true;
    await vi.advanceTimersByTimeAsync(4_000);
    expect(scene.status).toBe("Connects when you ask");
    vi.useRealTimers();
  });
});

describe("a page of an origin that the server does not let in", () => {
  let told: string[];

  beforeEach(() => {
    told = [];
    vi.stubGlobal("fetch", async (_url: string, { mode }: RequestInit) => {
      if (mode === "cors") throw new TypeError("Failed to fetch");
      return new Response();
    });
    vi.spyOn(console, "error").mockImplementation((line: string) => void told.push(line));
    scene.chat.setAttribute("url", "https://chat.example.com/");
    scene.chat.client = client;
  });

  it("is told so at once, and its maker is told once how to be let in", async () => {
    client.enter("waiting");
    await settle();
    expect(scene.conversation).toEqual(["This page may not use this server."]);
    expect(scene.find("status", HTMLElement).dataset.state).toBe("error");
    scene.chat.ask("Well?");
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    expect([client.last.isStopped, scene.chat.isBusy]).toEqual([true, false]);
    client.enter("open"); // what was stopped has ended
    expect(scene.status).toBe("Not allowed");
    expect(told).toEqual([expect.stringContaining(`EVENFLOW_ALLOWED_ORIGINS=${location.origin}`)]);
    expect(told[0]).toContain("https://chat.example.com does not");
  });

  it("does not lose an answer that has begun to a server that only blinks", async () => {
    scene.chat.ask("Well?");
    client.last.accept();
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    expect([client.last.isStopped, scene.chat.isBusy, told]).toEqual([false, true, []]);
  });
});

describe("keys", () => {
  const ENTER_OF_A_COMPOSITION = { key: "Enter", keyCode: 229 };

  beforeEach(() => {
    scene.chat.client = client;
  });

  it("asks by Enter, but not by one that chooses a word", () => {
    scene.type("Half a", { key: "Enter", isComposing: true });
    scene.type("Half a", ENTER_OF_A_COMPOSITION);
    expect(client.asked).toEqual([]);
    scene.press({ key: "Enter" });
    expect(client.asked).toHaveLength(1);
  });

  it.each([{ isComposing: true }, { keyCode: 229 }])("does not stop by an Esc of an input method (%j)", (of) => {
    scene.chat.ask("Well?");
    scene.press({ key: "Escape", ...of });
    expect(client.last.isStopped).toBe(false);
    scene.press({ key: "Escape" });
    expect(client.last.isStopped).toBe(true);
  });

  it("does not stop by an Esc that something else has used", () => {
    scene.chat.ask("Well?");
    scene.box.addEventListener("keydown", (event) => event.preventDefault());
    scene.press({ key: "Escape" });
    expect(client.last.isStopped).toBe(false);
  });
});

describe("the focus", () => {
  it("stays nowhere, where keys scroll, while an answer begins and ends", async () => {
    client = new ScriptedClient(new ScriptedAnswer("Where were we?"));
    scene.chat.client = client;
    expect(scene.focused).toBeUndefined();
    client.resumable?.complete();
    await settle();
    expect([scene.isStoppable, scene.focused]).toEqual([false, undefined]);
  });

  it("moves from Ask and from Stop to the text box", async () => {
    scene.chat.client = client;
    scene.box.value = "Well?";
    const ask = scene.find("ask", HTMLButtonElement);
    ask.focus();
    ask.click();
    expect(scene.focused).toBe("question");
    scene.find("stop", HTMLButtonElement).focus();
    client.last.complete();
    await settle();
    expect(scene.focused).toBe("question");
  });

  it("moves to Stop where a text box would bring a keyboard up", () => {
    vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} }));
    scene.chat.client = client;
    scene.find("ask", HTMLButtonElement).focus();
    scene.chat.ask("Well?");
    expect(scene.focused).toBe("stop");
  });

  it("moves from a suggestion, which may go, to the text box", () => {
    scene.chat.client = client;
    const suggestion = document.createElement("button");
    suggestion.slot = "suggestions";
    scene.chat.append(suggestion);
    suggestion.focus();
    scene.chat.ask("Suggested?");
    expect(scene.focused).toBe("question");
  });
});

describe("a client that is set while an answer is under way", () => {
  let next: ScriptedClient;
  let ends: number;

  beforeEach(async () => {
    ends = 0;
    scene.chat.addEventListener("evenflow-end", () => {
      ends += 1;
    });
    scene.chat.client = client;
    scene.chat.ask("First?");
    client.last.say("So far");
    await settle();
  });

  it("can be asked at once, and the answer is left as it is, not stopped", async () => {
    scene.chat.client = next = new ScriptedClient();
    expect([scene.isStoppable, scene.chat.isBusy, ends]).toEqual([false, false, 1]);
    expect(scene.chat.ask("Second?")).toBe(true);
    client.last.tell(failure());
    await settle();
    next.last.say("Anew");
    await settle();
    expect(scene.conversation).toEqual(["First?", "So far", "Incomplete", "Second?", "Anew", ""]);
    expect([scene.isStoppable, client.last.isStopped]).toEqual([true, false]);
    next.last.complete();
    await settle();
    expect([scene.isStoppable, ends]).toEqual([false, 2]);
  });

  it("goes on with its own, which the end of the other does not end", async () => {
    const resumed = new ScriptedAnswer("Another?");
    scene.chat.client = next = new ScriptedClient(resumed);
    client.last.complete();
    await settle();
    expect([scene.isStoppable, scene.chat.isBusy, ends]).toEqual([true, true, 1]);
    scene.chat.stop();
    expect(resumed.isStopped).toBe(true);
  });

  it("shows the question once, if it goes on with the same", async () => {
    scene.chat.client = new ScriptedClient(new ScriptedAnswer("First?"));
    await settle();
    expect(scene.conversation).toEqual(["First?", "", ""]);
  });

  it("changes nothing if it is the same", async () => {
    scene.chat.client = client;
    client.last.say(" good");
    await settle();
    expect([scene.isStoppable, ends, scene.chat.lastText]).toEqual([true, 0, "So far good"]);
  });
});
