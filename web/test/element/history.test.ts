// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ChatMessage } from "../../src/element/chat-client.ts";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedAnswer, ScriptedClient } from "./scripted-client.ts";

let scene: ChatScene;
let client: ScriptedClient;

function said(messageId: string, extra: Partial<ChatMessage> = {}): ChatMessage {
  const text = `Answer ${messageId}`;
  const parts = [{ type: "text", text }] as const;
  const answer = { status: "completed", text, parts, finishReason: "stop", error: null };
  return { messageId, responseId: `r-${messageId}`, question: `Question ${messageId}`, ...answer, ...extra };
}

async function restored(...messages: ChatMessage[]): Promise<void> {
  client.said = messages;
  client.isResumed = true;
  scene.chat.client = client;
  await settle();
}

/** What the page shows in the place of a conversation. */
function welcome(): HTMLSlotElement {
  const slot = scene.chat.shadowRoot?.querySelector<HTMLSlotElement>("slot[name=welcome]");
  if (!slot) throw new Error("there is no welcome");
  return slot;
}

beforeEach(() => {
  scene = new ChatScene();
  client = new ScriptedClient();
});

describe("a conversation of before", () => {
  it("is on the screen again, with its parts, and unsaid", async () => {
    const parts = [
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "It is so." },
    ] as const;
    await restored(said("m1"), said("m2", { parts, text: "It is so.", finishReason: "length" }));
    expect(scene.conversation).toEqual([
      "Question m1",
      "Answer m1",
      "",
      "Question m2",
      expect.stringContaining("It is so."),
      "The answer was cut at its length limit",
    ]);
    expect(scene.order).toEqual(["reasoning", "markdown"]);
    expect([scene.chat.lastText, scene.spoken, scene.chat.isBusy]).toEqual(["It is so.", [], false]);
  });

  it("is asked for only where there may be one", async () => {
    client.said = [said("m1")];
    scene.chat.client = client;
    await settle();
    expect(scene.conversation).toEqual([]);
  });

  it("has older messages above, page by page", async () => {
    await restored(said("m1"), said("m2"), said("m3"));
    expect(scene.conversation.filter((line) => line?.startsWith("Question"))).toEqual(["Question m2", "Question m3"]);
    scene.find("earlier", HTMLButtonElement).click();
    await settle();
    expect(scene.conversation.filter((line) => line?.startsWith("Question"))).toEqual([
      "Question m1",
      "Question m2",
      "Question m3",
    ]);
    expect(scene.find("earlier", HTMLButtonElement).hidden).toBe(true);
    expect(scene.chat.lastText).toBe("Answer m3");
  });

  it("can be gone on with: its last answer is tried again, and what replaces it says so", async () => {
    await restored(said("m1"), said("m2"));
    expect(scene.buttons("Retry")).toHaveLength(1);
    scene.button("Retry")?.click();
    expect([client.last.question, client.last.replaces]).toEqual(["Question m2", "m2"]);
    client.last.accept();
    client.last.say("Anew");
    await settle();
    expect(scene.conversation).toEqual(["Question m1", "Answer m1", "", "Question m2", "Anew", ""]);
  });

  it("tells what ended an answer before its time", async () => {
    const error = { type: "upstream_error", code: "model_timeout", message: "" };
    await restored(
      said("m1", { status: "error", finishReason: null, error }),
      said("m2", { status: "cancelled", finishReason: null }),
    );
    expect(scene.conversation[2]).toBe("Incomplete · The model took too long.");
    expect(scene.conversation.at(-1)).toBe("Stopped");
  });

  it("says that an answer was stopped because nobody read it, and offers to go on with it", async () => {
    await restored(said("m1", { status: "cancelled", finishReason: "abandoned" }));
    expect(scene.conversation.at(-1)).toBe("Nobody was reading, so the model was stopped");
    scene.button("Continue")?.click();
    expect(client.last.question).toBe("Please continue your answer where it stopped.");
  });

  it("stands above an answer that the reload has interrupted, which goes on", async () => {
    client = new ScriptedClient(new ScriptedAnswer("Question m2", "m2"));
    await restored(said("m1"), said("m2", { status: "streaming", text: "So", parts: [] }));
    client.resumable?.say("So far");
    await settle();
    expect(scene.conversation).toEqual(["Question m1", "Answer m1", "", "Question m2", "So far", ""]);
    expect(client.followed).toEqual([]);
  });

  it("has an answer that is on its way elsewhere followed", async () => {
    await restored(said("m1"), said("m2", { status: "queued", text: "", parts: [] }));
    client.followed[0]?.say("Live");
    await settle();
    expect(scene.conversation.slice(3)).toEqual(["Question m2", "Live", ""]);
    expect(scene.chat.isBusy).toBe(true);
  });

  it("is not shown any more when another client has come meanwhile", async () => {
    client.said = [said("m1")];
    client.isResumed = true;
    scene.chat.client = client;
    scene.chat.client = new ScriptedClient();
    await settle();
    expect(scene.conversation).toEqual([]);
  });

  it("can't be tried again where the question is no longer kept", async () => {
    await restored(said("m1", { question: "" }));
    expect([scene.chat.lastText, scene.buttons("Retry")]).toEqual(["Answer m1", []]);
  });

  it.each([
    ["opens", ["Question m1", "Answer m1", ""]],
    ["is closed", []],
  ])("is read again when the connection %s, and the welcome does not come back meanwhile", async (how, seen) => {
    client.failure = Object.assign(new Error("no route"), { kind: "connection" });
    client.connection = "waiting";
    await restored(said("m1"));
    expect([client.reads, welcome().hidden]).toEqual([1, true]);
    client.failure = undefined;
    client.enter(how === "opens" ? "open" : "closed");
    await settle();
    expect(scene.conversation).toEqual(seen);
  });

  it("is read again without an event of the connection, at growing intervals", async () => {
    vi.useFakeTimers();
    try {
      client.failure = Object.assign(new Error("no route"), { kind: "connection" });
      client.said = [said("m1")];
      client.isResumed = true;
      client.connection = "waiting";
      scene.chat.client = client;
      await vi.advanceTimersByTimeAsync(7_000);
      expect(client.reads).toBe(1 + 3);
      client.failure = undefined;
      await vi.advanceTimersByTimeAsync(8_000);
      expect(scene.chat.lastText).toBe("Answer m1");
      await vi.advanceTimersByTimeAsync(60_000);
      expect([client.reads, client.reconnects], "others' questions come live again").toEqual([1 + 3 + 1, 1]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("comes above what was asked before it could be read", async () => {
    client.failure = Object.assign(new Error("no route"), { kind: "connection" });
    await restored(said("m0"));
    scene.chat.ask("New?");
    client.last.accept();
    client.last.say("Yes.");
    await settle();
    client.failure = undefined;
    client.said.push(said("m1", { question: "New?", status: "streaming" }));
    client.enter("open");
    await settle();
    expect(scene.conversation).toEqual(["Question m0", "Answer m0", "", "New?", "Yes.", ""]);
  });

  it("shows the welcome once it is known to be empty", async () => {
    await restored();
    expect(welcome().hidden).toBe(false);
  });

  it("that can't be had leaves the page as it is", async () => {
    client.failure = new Error("gone");
    await restored(said("m1"));
    expect([scene.conversation, welcome().hidden, scene.chat.ask("New?")]).toEqual([[], false, true]);
  });
});

describe("what others ask in it", () => {
  const OTHER = { messageId: "m2", responseId: "r-m2", question: "Question m2" };

  it("comes live", async () => {
    await restored(said("m1"));
    client.tellMessage({ ...OTHER, replaces: null });
    client.followed[0]?.say("Live");
    client.followed[0]?.complete();
    await settle();
    expect(scene.conversation.slice(3, 5)).toEqual(["Question m2", "Live"]);
    expect(scene.buttons("Retry")).toHaveLength(1);
  });

  it("replaces what it says it replaces", async () => {
    await restored(said("m1"));
    client.said = [said("m2", { question: "Better?" })];
    client.tellMessage({ ...OTHER, replaces: "m1" });
    await settle();
    expect(scene.conversation).toEqual(["Better?", "Answer m2", ""]);
  });

  it("waits for the answer that is on its way here", async () => {
    await restored(said("m1"));
    scene.chat.ask("Mine?");
    client.tellMessage({ ...OTHER, replaces: null });
    client.said = [
      said("m2"),
      said("m3", { question: "Mine?", text: "Yours.", parts: [{ type: "text", text: "Yours." }] }),
    ];
    client.last.say("Yours.");
    client.last.complete();
    await settle();
    await settle();
    expect(scene.conversation).toEqual(["Question m2", "Answer m2", "", "Mine?", "Yours.", ""]);
  });

  it("is looked for when the reader comes back to a page that has no connection", async () => {
    await restored(said("m1"));
    client.said.push(said("m2"));
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    expect(scene.chat.lastText, "what is open is told").toBe("Answer m1");
    client.enter("waiting");
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    expect(scene.chat.lastText).toBe("Answer m2");
  });

  it("is not looked for by an element that was taken out of the page", async () => {
    await restored(said("m1"));
    client.enter("waiting");
    scene.chat.remove();
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    expect(client.reads).toBe(1);
    document.body.append(scene.chat);
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    expect(client.reads, "it is there again").toBe(2);
  });
});

describe("a question that is edited", () => {
  beforeEach(async () => {
    await restored(said("m1"));
    scene.find("edit", HTMLButtonElement).click();
  });

  it("is put into the box to be changed, and asked in the place of the old one", async () => {
    expect([scene.box.value, scene.focused]).toEqual(["Question m1", "question"]);
    scene.type("Better?");
    expect([client.last.question, client.last.replaces, scene.box.value]).toEqual(["Better?", "m1", ""]);
    client.last.accept();
    client.last.say("Better.");
    client.last.complete();
    await settle();
    expect(scene.conversation).toEqual(["Better?", "Better.", expect.any(String)]);
    scene.type("Next?");
    expect([client.last.question, client.last.replaces]).toEqual(["Next?", undefined]);
  });

  it.each(["Esc", "the button"])("is left as it was by %s", (way) => {
    if (way === "Esc") scene.press({ key: "Escape" });
    else scene.find("end-edit", HTMLButtonElement).click();
    expect(scene.box.value).toBe("");
    scene.type("Another?");
    expect([client.last.question, client.last.replaces]).toEqual(["Another?", undefined]);
  });
});

it.each([
  [undefined, "too long: the model is not told its oldest messages"],
  ["server", "too long: the model is not told its oldest messages"],
  ["model", "too long for the model"],
])("is said once where the model is not told all of the conversation, by %s", async (historyDroppedBy, said) => {
  scene.chat.client = client;
  for (const _ of [1, 2]) {
    scene.chat.ask("Well?");
    const by = historyDroppedBy === undefined ? {} : { historyDroppedBy };
    client.last.tell({ type: "accepted", responseId: "r1", historyDropped: 4, ...by });
    client.last.complete();
    await settle();
  }
  expect(scene.notices).toEqual([expect.stringContaining(said)]);
});
