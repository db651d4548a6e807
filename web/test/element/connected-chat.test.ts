// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ConnectedChat, folderOf } from "../../src/element/connected-chat.ts";
import { completeTheBrowser, settle } from "./chat-scene.ts";
import { ScriptedClient } from "./scripted-client.ts";

vi.mock("../../src/client/index.ts", () => ({
  connect: () => Object.assign(new ScriptedClient(), { close: vi.fn() }),
}));
customElements.define("evenflow-chat", ConnectedChat);

/** The page's scripts are at this point; its `load` never comes. */
function loadingPage(domContentLoadedEventStart: number): void {
  vi.spyOn(document, "readyState", "get").mockReturnValue("interactive");
  vi.stubGlobal("performance", { now: () => 0, getEntriesByType: () => [{ domContentLoadedEventStart }] });
}

describe("ConnectedChat", () => {
  let chat: ConnectedChat;

  beforeEach(() => {
    completeTheBrowser();
    chat = new ConnectedChat();
  });

  afterEach(async () => {
    chat.remove();
    await settle();
  });

  it("leaves the page's scripts the time to give it a client", async () => {
    loadingPage(0);
    document.body.append(chat);
    await settle();
    expect(chat.client).toBeUndefined();
    document.dispatchEvent(new Event("DOMContentLoaded"));
    await settle();
    expect(chat.client).toBeInstanceOf(ScriptedClient);
  });

  it("takes what a page has given it before its module was there", async () => {
    const [diagrams, client, strings] = [() => "<svg></svg>", new ScriptedClient(), { ask: "Go" }];
    for (const [name, value] of Object.entries({ diagrams, client, strings })) {
      Object.defineProperty(chat, name, { value, configurable: true });
    }
    document.body.append(chat);
    await settle();
    expect([chat.diagrams, chat.client, chat.strings]).toEqual([diagrams, client, strings]);
    expect(Object.keys(Object.getOwnPropertyDescriptors(chat))).not.toContain("diagrams");
  });

  it("does not wait for what the page loads behind its scripts", async () => {
    loadingPage(1_234);
    document.body.append(chat);
    await settle();
    expect(chat.client).toBeInstanceOf(ScriptedClient);
  });
});

describe("folderOf", () => {
  it.each([
    ["https://site.test/evenflow-chat.js", "https://site.test"],
    ["https://site.test/ev/evenflow-chat.js", "https://site.test/ev"],
    ["https://site.test/ev/evenflow-chat.js?v=1/2#x", "https://site.test/ev"],
    ["https://site.test", "https://site.test"],
    ["null", "null"],
  ])("finds the server of a module at %s", (url, server) => {
    expect(folderOf(url)).toBe(server);
  });
});
