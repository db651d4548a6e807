import { describe, expect, it } from "vitest";
import { SentenceSplitter } from "../../src/element/sentence-splitter.ts";

function split(...pieces: string[]): { said: string[]; left: string[] } {
  const splitter = new SentenceSplitter();
  return { said: pieces.flatMap((piece) => splitter.push(piece)), left: splitter.flush() };
}

describe("SentenceSplitter", () => {
  it("says a sentence once it is whole, however it was cut", () => {
    expect(split("It is", " even. ", "It is ", "lossless!", " Is", " it?")).toEqual({
      said: ["It is even.", "It is lossless!"],
      left: ["Is it?"],
    });
  });

  it("gives several sentences of one piece", () => {
    expect(split("One. Two? Three").said).toEqual(["One.", "Two?"]);
  });

  it("does not cut numbers and names", () => {
    expect(split("Version 1.5 of evenflow.v1.compact is out. ").said).toEqual([
      "Version 1.5 of evenflow.v1.compact is out.",
    ]);
  });

  it("keeps a closing quote with its sentence", () => {
    expect(split('He said "go." Then he went.').said).toEqual(['He said "go."']);
  });

  it("takes a line for a sentence", () => {
    expect(split("- one\n- two\n\nthree")).toEqual({ said: ["- one", "- two"], left: ["three"] });
  });

  it("says nothing of white space, and forgets what it has flushed", () => {
    const splitter = new SentenceSplitter();
    expect(splitter.push("\n\n  ")).toEqual([]);
    expect(splitter.push("Left")).toEqual([]);
    expect(splitter.flush()).toEqual(["Left"]);
    expect(splitter.flush()).toEqual([]);
  });
});
