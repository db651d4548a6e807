// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from "vitest";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedAnswer, ScriptedClient } from "./scripted-client.ts";

let scene: ChatScene;
let client: ScriptedClient;

beforeEach(() => {
  scene = new ChatScene();
  client = new ScriptedClient();
});

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

  it("that failed can still be asked again after another one that was under way", async () => {
    scene.chat.client = client;
    scene.chat.ask("First?");
    client.last.tell(failure());
    await settle();
    scene.chat.ask("Second?");
    scene.button("Ask again")?.click();
    expect(client.asked).toHaveLength(2);
    client.last.complete();
    await settle();
    scene.button("Ask again")?.click();
    expect(client.last.question).toBe("First?");
    expect(scene.button("Ask again")).toBeUndefined();
  });
});

describe("the status", () => {
  it("does not claim that anything is tried while nothing is asked", () => {
    scene.chat.client = client;
    client.enter("waiting");
    expect(scene.status).toBe("Connects when you ask");
  });

  it("says that it tries again while an answer is under way", async () => {
    scene.chat.client = client;
    scene.chat.ask("Well?");
    client.last.tell({ type: "reconnecting", delayMs: 500 });
    await settle();
    client.enter("waiting");
    expect(scene.status).toBe("Connection lost, reconnecting…");
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

  it("moves from Ask to Stop, and from Stop to the text box", async () => {
    scene.chat.client = client;
    scene.box.value = "Well?";
    const ask = scene.find("ask", HTMLButtonElement);
    ask.focus();
    ask.click();
    expect(scene.focused).toBe("stop");
    client.last.complete();
    await settle();
    expect(scene.focused).toBe("question");
  });

  it("moves from a suggestion, which may go, to Stop", () => {
    scene.chat.client = client;
    const suggestion = document.createElement("button");
    suggestion.slot = "suggestions";
    scene.chat.append(suggestion);
    suggestion.focus();
    scene.chat.ask("Suggested?");
    expect(scene.focused).toBe("stop");
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
