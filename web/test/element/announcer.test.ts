// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from "vitest";
import { Announcer } from "../../src/element/announcer.ts";

describe("Announcer", () => {
  let region: HTMLElement;
  let announcer: Announcer;
  const said = (): (string | null)[] => [...region.children].map(({ textContent }) => textContent);

  beforeEach(() => {
    region = document.createElement("div");
    announcer = new Announcer(region);
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

  it("keeps the region short", () => {
    for (let number = 0; number < 40; number += 1) announcer.addText(`Sentence ${number}. `);
    expect(said()).toHaveLength(12);
  });
});
