// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ChatPart } from "../../src/element/chat-client.ts";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedClient } from "./scripted-client.ts";

let scene: ChatScene;
let client: ScriptedClient;

beforeEach(() => {
  scene = new ChatScene();
  client = new ScriptedClient();
  scene.chat.client = client;
  scene.chat.ask("Well?");
  client.last.accept();
});

const CALL = { type: "tool", name: "weather", arguments: "", isComplete: false } as const;

async function show(position: number, part: ChatPart): Promise<void> {
  client.last.tell({ type: "part", position, part });
  await settle();
}

describe("reasoning", () => {
  it("is folded, and its time is told when something else comes", async () => {
    const clock = vi.spyOn(performance, "now").mockReturnValue(1_000);
    await show(0, { type: "reasoning", text: "Hm" });
    await show(0, { type: "reasoning", text: "Hm, it may be cold." });
    const reasoning = scene.find("reasoning", HTMLDetailsElement);
    expect([reasoning.open, reasoning.textContent]).toEqual([false, "Thinking…Hm, it may be cold."]);
    expect([scene.status, scene.spoken]).toEqual(["Thinking…", ["Thinking."]]);
    clock.mockReturnValue(4_200);
    client.last.say("It is.");
    await settle();
    expect(reasoning.querySelector("summary")?.textContent).toBe("Thought for 3 s");
    expect([scene.status, scene.chat.lastText]).toEqual(["Streaming", "It is."]);
  });

  it("has no time where it came all at once", async () => {
    await show(0, { type: "reasoning", text: "Hm" });
    client.last.complete();
    await settle();
    expect(scene.find("reasoning", HTMLDetailsElement).textContent).toBe("ThoughtsHm");
  });
});

describe("a tool", () => {
  it("is a card with its arguments as they grow, and its result", async () => {
    client.last.say("Let me look.");
    await show(1, CALL);
    const card = scene.find("tool", HTMLDetailsElement);
    expect([scene.lines(card), scene.status]).toEqual([["weather", "Calling…"], "Using weather…"]);
    await show(1, { ...CALL, arguments: '{"city":' });
    expect(scene.lines(card)).toEqual(["weather", "Calling…", "Arguments", '{"city":']);
    const whole = { ...CALL, arguments: '{"city":"Oslo"}', isComplete: true };
    await show(1, whole);
    expect(scene.lines(card)).toEqual(["weather", "Running…", "Arguments", '{\n  "city": "Oslo"\n}']);
    await show(1, { ...whole, result: "cold" });
    expect(scene.lines(card).slice(4)).toEqual(["Result", "cold"]);
    expect(scene.lines(card)[1]).toBe("Done");
    expect(scene.spoken).toEqual(["Let me look.", "Using weather.", "Result of weather."]);
  });

  it("that gave nothing by the end of the answer was only called", async () => {
    await show(0, CALL);
    client.last.complete();
    await settle();
    expect(scene.lines(scene.find("tool", HTMLDetailsElement))).toEqual(["weather", "Called"]);
  });

  it("stands between the text before and behind it", async () => {
    client.last.say("Before");
    await show(1, CALL);
    client.last.say("Behind");
    await settle();
    expect(scene.order).toEqual(["markdown", "tool", "markdown"]);
    expect(scene.chat.lastText).toBe("BeforeBehind");
  });
});

describe("sources", () => {
  it("are links below the answer, once each, and don't break the text up", async () => {
    client.last.say("It is **co");
    await show(1, { type: "source", url: "https://example.com/a", title: "A page" });
    await show(2, { type: "source", url: "https://example.com/a", title: "A page" });
    await show(3, { type: "source", url: "https://example.com/b", title: "" });
    client.last.say("ld**.");
    await settle();
    const links = [...scene.find("sources", HTMLElement).querySelectorAll("a")];
    expect(links.map(({ textContent, href, rel, target }) => [textContent, href, rel, target])).toEqual([
      ["A page", "https://example.com/a", "noopener noreferrer nofollow", "_blank"],
      ["https://example.com/b", "https://example.com/b", "noopener noreferrer nofollow", "_blank"],
    ]);
    expect(scene.order).toEqual(["markdown"]);
  });

  it("without an address, or with one that isn't safe, are no links", async () => {
    await show(0, { type: "source", url: "javascript:alert(1)", title: "Harmless" });
    await show(1, { type: "source", url: "", title: "A book" });
    await show(2, { type: "source", url: "", title: "Another book" });
    const sources = scene.find("sources", HTMLElement);
    const items = [...sources.querySelectorAll("li")].map(({ textContent }) => textContent);
    expect([sources.querySelector("a"), items]).toEqual([null, ["Harmless", "A book", "Another book"]]);
  });
});

describe("what no longer stands", () => {
  it("is replaced by the parts that do", async () => {
    await show(0, { type: "reasoning", text: "Hm" });
    await show(1, { type: "source", url: "https://example.com/a", title: "" });
    client.last.say("Kept, and lost");
    await show(3, CALL);
    const parts = [
      { type: "reasoning", text: "Hm" },
      { type: "text", text: "Kept" },
    ] as const;
    client.last.tell({ type: "restarted", keep: 4, parts });
    client.last.say(" safe");
    await settle();
    expect(scene.order).toEqual(["reasoning", "markdown"]);
    expect(scene.chat.lastText).toBe("Kept safe");
    expect(scene.find("answer", HTMLElement).lastElementChild?.textContent?.trim()).toBe("Kept safe");
    expect(scene.find("sources", HTMLElement).hidden).toBe(true);
  });
});

describe("an error behind parts without text", () => {
  it("leaves them, and lets the model go on", async () => {
    await show(0, { type: "reasoning", text: "Hm" });
    const body = { type: "upstream_error", code: "upstream_failed", message: "" };
    client.last.tell(Object.assign(new Error("broken"), { kind: "answer", body }));
    await settle();
    expect(scene.order).toEqual(["reasoning"]);
    expect([scene.button("Continue", ".error"), scene.button("Try again", ".error")]).not.toContain(undefined);
  });
});

it("is no matter what a part is that isn't known", async () => {
  await show(0, { type: "hologram" } as unknown as ChatPart);
  client.last.say("Text");
  await settle();
  expect(scene.order).toEqual(["markdown"]);
});
