// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from "vitest";
import type { ChatMessage } from "../../src/element/chat-client.ts";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedClient } from "./scripted-client.ts";

let scene: ChatScene;
let client: ScriptedClient;

function said(messageId: string, extra: Partial<ChatMessage> = {}): ChatMessage {
  const text = `Answer ${messageId}`;
  const parts = [{ type: "text", text }] as const;
  const answer = { status: "completed", text, parts, finishReason: "stop", error: null, versions: [messageId] };
  return { messageId, responseId: `r-${messageId}`, question: `Question ${messageId}`, ...answer, ...extra };
}

async function restored(...messages: ChatMessage[]): Promise<void> {
  client.said = messages;
  client.isResumed = true;
  scene.chat.client = client;
  await settle();
}

/** What the reader sees of questions and answers. */
function seen(): string[] {
  const all = scene.chat.shadowRoot?.querySelectorAll<HTMLElement>(".question, .parts") ?? [];
  return [...all].filter((each) => each.closest("[hidden]") === null).map(({ textContent }) => textContent ?? "");
}

/** The switches that can be seen, by their words. */
function switches(): (string | undefined)[] {
  const all = scene.chat.shadowRoot?.querySelectorAll<HTMLElement>(".versions:not([hidden])") ?? [];
  return [...all].map((each) => each.querySelector("span")?.textContent ?? undefined);
}

function click(testId: string, place: number): void {
  const found = scene.chat.shadowRoot?.querySelectorAll<HTMLButtonElement>(`[data-testid="${testId}"]`) ?? [];
  [...found].at(place)?.click();
}

beforeEach(() => {
  scene = new ChatScene();
  client = new ScriptedClient();
  client.prefix = "new-";
});

describe("an earlier question", () => {
  beforeEach(async () => {
    await restored(said("m1"), said("m2"));
    click("edit", 0);
    scene.type("Better?");
  });

  it("is asked anew in its place, and what came after it is put aside", async () => {
    expect([client.last.question, client.last.replaces]).toEqual(["Better?", "m1"]);
    expect(seen()).toEqual(["Better?", "Answer m1", ""]);
    client.last.accept();
    client.last.say("Better.");
    client.last.complete();
    await settle();
    expect(seen()).toEqual(["Better?", "Better."]);
    expect(switches()).toEqual(["2/2"]);
    scene.type("Next?");
    expect([client.last.replaces, client.last.parent], "the new version goes on").toEqual([undefined, undefined]);
  });

  it("is as it was where the server does not take the new one, which is in the box again", async () => {
    client.last.tell(new Error("refused"));
    await settle();
    expect(seen()).toEqual(["Question m1", "Answer m1", "Question m2", "Answer m2"]);
    expect([scene.box.value, switches()]).toEqual(["Better?", []]);
    scene.type("Best?");
    expect([client.last.question, client.last.replaces]).toEqual(["Best?", "m1"]);
  });

  it("goes on in its old version where nothing has come of the new one", async () => {
    client.last.accept();
    client.last.tell(new Error("broken"));
    await settle();
    expect(seen()).toEqual(["Question m1", "Answer m1", "Question m2", "Answer m2"]);
    expect(switches()).toEqual(["1/2"]);
    scene.type("Next?");
    expect([client.last.question, client.last.parent]).toEqual(["Next?", "m2"]);
  });
});

describe("the versions of a question", () => {
  const BOTH = { versions: ["m1", "m3"] };

  beforeEach(async () => {
    client.versions.set("m1", [said("m1", BOTH), said("m2")]);
    client.versions.set("m3", [said("m3", BOTH)]);
    await restored(said("m3", BOTH));
  });

  it("are switched, with the focus and the words for it", async () => {
    expect([seen(), switches()]).toEqual([["Question m3", "Answer m3"], ["2/2"]]);
    click("earlier-version", 0);
    await settle();
    expect(seen()).toEqual(["Question m1", "Answer m1", "Question m2", "Answer m2"]);
    expect([switches(), scene.focused, scene.spoken]).toEqual([["1/2"], "later-version", ["Version 1 of 2."]]);
    click("later-version", 0);
    await settle();
    expect([seen(), scene.focused]).toEqual([["Question m3", "Answer m3"], "earlier-version"]);
  });

  it("are gone on with: the older one by its last message", async () => {
    click("earlier-version", 0);
    await settle();
    scene.type("Next?");
    expect([client.last.question, client.last.parent]).toEqual(["Next?", "m2"]);
    client.last.accept();
    client.last.say("So.");
    client.last.complete();
    await settle();
    scene.type("And?");
    expect(client.last.parent, "it is the newest one now").toBeUndefined();
  });

  it("are as they were chosen after a reload, until the older one is gone on with", async () => {
    client.versions.set("m2", [said("m1", BOTH), said("m2")]);
    click("earlier-version", 0);
    await settle();
    expect(client.draft).toEqual({ text: "", parent: "m2" });
    scene = new ChatScene();
    scene.chat.client = client;
    expect(client.draft, "before it is read").toEqual({ text: "", parent: "m2" });
    await settle();
    expect([seen(), switches()]).toEqual([["Question m1", "Answer m1", "Question m2", "Answer m2"], ["1/2"]]);
    scene.type("Next?");
    expect([client.last.question, client.last.parent]).toEqual(["Next?", "m2"]);
    client.last.accept();
    await settle();
    expect(client.draft).toBeNull();
  });

  it("are the newest again after a reload once that was chosen", async () => {
    click("earlier-version", 0);
    await settle();
    click("later-version", 0);
    await settle();
    expect(client.draft).toBeNull();
  });

  it("are the newest where the chosen one is no longer kept", async () => {
    client.draft = { text: "Half", parent: "gone" };
    const { messages } = client;
    client.messages = async (options) => {
      if (options?.through === "gone") throw Object.assign(new Error("gone"), { kind: "refused" });
      return messages.call(client, options);
    };
    scene = new ChatScene();
    scene.chat.client = client;
    await settle();
    expect([seen(), scene.box.value]).toEqual([["Question m3", "Answer m3"], "Half"]);
    expect(client.draft).toEqual({ text: "Half" });
  });

  it("stay as they are while an answer is on its way", async () => {
    scene.chat.ask("Next?");
    click("earlier-version", 0);
    await settle();
    expect(seen()[0]).toBe("Question m3");
  });

  it("give way to what somebody else asks", async () => {
    click("earlier-version", 0);
    await settle();
    client.said = [said("m3", BOTH), said("m4")];
    client.tellMessage({ messageId: "m4", responseId: "r-m4", question: "Question m4", replaces: null });
    await settle();
    expect(seen()).toEqual(["Question m3", "Answer m3", "Question m4", "Answer m4"]);
  });

  it("are not left because the page is looked at again", async () => {
    click("earlier-version", 0);
    await settle();
    client.enter("waiting");
    document.dispatchEvent(new Event("visibilitychange"));
    await settle();
    expect(seen()[0]).toBe("Question m1");
  });
});

describe("what is typed", () => {
  const typed = (text: string) => {
    scene.box.value = text;
    scene.box.dispatchEvent(new Event("input"));
  };

  it("is kept until it is asked", async () => {
    scene.chat.client = client;
    typed("Half of a");
    expect(client.draft).toEqual({ text: "Half of a" });
    scene.press({ key: "Enter" });
    expect([client.draft, scene.box.value]).toEqual([null, ""]);
  });

  it("is in the box again after a reload", async () => {
    client.draft = { text: "Half of a" };
    await restored(said("m1"));
    expect(scene.box.value).toBe("Half of a");
    scene.press({ key: "Enter" });
    expect([client.last.question, client.last.replaces]).toEqual(["Half of a", undefined]);
  });

  it("is an edit again that the reload has interrupted", async () => {
    client.draft = { text: "Better?", replaces: "m1" };
    await restored(said("m1"), said("m2"));
    expect(client.draft).toEqual({ text: "Better?", replaces: "m1" });
    scene.press({ key: "Enter" });
    expect([client.last.question, client.last.replaces]).toEqual(["Better?", "m1"]);
  });

  it("is still that edit where the conversation can't be read before the next reload, and once it can", async () => {
    client.draft = { text: "Better?", replaces: "m1" };
    client.failure = Object.assign(new Error("no route"), { kind: "connection" });
    await restored(said("m1"), said("m2"));
    expect([scene.box.value, client.draft]).toEqual(["Better?", { text: "Better?", replaces: "m1" }]);
    typed("Best?");
    expect(client.draft).toEqual({ text: "Best?", replaces: "m1" });
    client.failure = undefined;
    client.enter("open");
    await settle();
    scene.press({ key: "Enter" });
    expect([client.last.question, client.last.replaces]).toEqual(["Best?", "m1"]);
  });

  it("is no edit any more once it was asked before the conversation could be read", async () => {
    client.draft = { text: "Better?", replaces: "m1" };
    client.failure = Object.assign(new Error("no route"), { kind: "connection" });
    await restored(said("m1"));
    scene.press({ key: "Enter" });
    typed("Next");
    expect([client.last.replaces, client.draft]).toEqual([undefined, { text: "Next" }]);
  });

  it("is in the box again once another question was edited, or not", async () => {
    await restored(said("m1"));
    typed("Mine");
    click("edit", 0);
    expect(scene.box.value).toBe("Question m1");
    scene.button("Cancel")?.click();
    expect([scene.box.value, client.draft]).toEqual(["Mine", { text: "Mine" }]);
    click("edit", 0);
    scene.type("Better?");
    expect([client.last.question, scene.box.value]).toEqual(["Better?", "Mine"]);
  });
});
