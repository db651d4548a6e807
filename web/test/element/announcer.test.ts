// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Announcer } from "../../src/element/announcer.ts";

describe("Announcer", () => {
  let region: HTMLElement;
  let announcer: Announcer;
  const said = (): (string | null)[] => [...region.children].map(({ textContent }) => textContent);

  beforeEach(() => {
    vi.useFakeTimers();
    region = document.createElement("div");
    announcer = new Announcer(region);
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it("says whole sentences, without their marks, and then the ending", () => {
    for (const token of ["It ", "is **ev", "en**. ", "It goes", " on"]) announcer.addText(token);
    expect(said()).toEqual(["It is even."]);
    announcer.finish("Answer complete.");
    expect(said()).toEqual(["It is even.", "It goes on", "Answer complete."]);
  });

  it("drops what no longer holds, a block of code that was open too", () => {
    announcer.addText("```js\nlet a;\nhalf of");
    announcer.restart("The answer begins again.");
    announcer.addText("Anew. ");
    expect(said()).toEqual(["Code, js.", "The answer begins again.", "Anew."]);
  });

  it("says all of what comes at once, however much that is", () => {
    const sentences = Array.from({ length: 40 }, (_, number) => `Sentence ${number}.`);
    announcer.addText(`${sentences.join(" ")} `);
    expect(said()).toEqual([sentences.join(" ")]);
    for (const sentence of sentences) announcer.addText(`${sentence} `);
    expect(said().slice(1)).toEqual(sentences);
  });

  it("keeps the region short", () => {
    announcer.addText("Early. ");
    vi.advanceTimersByTime(9_000);
    announcer.addText("Late. ");
    vi.advanceTimersByTime(2_000);
    expect(said()).toEqual(["Late."]);
    vi.advanceTimersByTime(9_000);
    expect(said()).toEqual([]);
  });
});
