import { describe, expect, it } from "vitest";
import { Spoken } from "../../src/element/spoken.ts";
import { ENGLISH } from "../../src/element/strings.ts";

function said(...sentences: string[]): string[] {
  const spoken = new Spoken();
  return sentences.map((sentence) => spoken.of(sentence, ENGLISH));
}

describe("Spoken", () => {
  it.each([
    ["It is **even** and `fast`.", "It is even and fast."],
    ["## A heading", "A heading"],
    ["- An item with [a link](https://a.b).", "An item with a link."],
    ["> > Quoted *twice*.", "Quoted twice."],
    ["| one | two |", "one, two"],
    ["|---|:-:|", ""],
    ["* * *", ""],
    ["- [x] Done.", "Done."],
    ["> [!WARNING]", "Warning:"],
    ["> [!OTHER]", "[!OTHER]"],
    ["[^1]: A note.[^2]", "A note."],
    ["<script>alert(1)</script> is text.", "<script>alert(1)</script> is text."],
    ["It is 3 > 2.", "It is 3 > 2."],
  ])("says of %s", (sentence, words) => {
    expect(said(sentence)).toEqual([words]);
  });

  it("names a block of code and passes over it", () => {
    expect(said("```js", "let a = 1;", "# not a heading", "```", "Go on.")).toEqual([
      "Code, js.",
      "",
      "",
      "",
      "Go on.",
    ]);
    expect(said("~~~", "x", "~~~")).toEqual(["Code, text.", "", ""]);
  });
});
