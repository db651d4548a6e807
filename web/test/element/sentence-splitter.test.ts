import { describe, expect, it } from "vitest";
import { SentenceSplitter } from "../../src/element/sentence-splitter.ts";
import { cpuMs } from "../cpu-time.ts";

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

  it("ends a sentence of Chinese or Japanese at the character behind it", () => {
    expect(split("你好。今天很好！", "！是吗？", "他说「走。」然后走了。")).toEqual({
      said: ["你好。", "今天很好！！", "是吗？", "他说「走。」"],
      left: ["然后走了。"],
    });
  });

  it.each(["!", "。", '."', "。」", " "])("looks at a run of %j once, not once for each of its characters", (mark) => {
    const cost = (length: number): number => {
      const text = mark.repeat(length / mark.length);
      return Math.min(
        ...Array.from({ length: 5 }, () => {
          const begun = cpuMs();
          new SentenceSplitter().push(text);
          return cpuMs() - begun;
        }),
      );
    };
    cost(2_000); // so that both are of compiled code
    // Sixteen times the text: the square would cost 256 times as much.
    expect(cost(32_000)).toBeLessThan(80 * cost(2_000) + 5);
  });

  it("says what does not end in pieces, at blanks where there are any, and loses nothing of it", () => {
    const words = "word ".repeat(500).trim();
    const { said, left } = split(...words.split(/(?<= )/), "");
    expect([...said, ...left].join(" ")).toBe(words);
    expect(Math.max(...said.map(({ length }) => length))).toBeLessThanOrEqual(1_000);
    expect(said).toHaveLength(2);
    expect(split("!".repeat(2_500)).said).toEqual(["!".repeat(1_000), "!".repeat(1_000)]);
  });

  it("says nothing of white space, and forgets what it has flushed", () => {
    const splitter = new SentenceSplitter();
    expect(splitter.push("\n\n  ")).toEqual([]);
    expect(splitter.push("Left")).toEqual([]);
    expect(splitter.flush()).toEqual(["Left"]);
    expect(splitter.flush()).toEqual([]);
  });
});
