import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { characterEnd, openCharacter } from "../../src/smoother/character-end.ts";

describe("characterEnd", () => {
  it.each([
    ["plain text", "abc", 1, 1],
    ["half of a pair", "a😀b", 2, 3],
    ["an accent of its own", "e\u0301x", 1, 2],
    ["a skin tone", "👍🏽!", 2, 4],
    ["a family", "👨‍👩‍👧.", 2, 8],
    ["a flag", "🇩🇪🇫🇷", 5, 8],
    ["a keycap", "1️⃣.", 1, 3],
    ["a Korean syllable in parts", "\u1112\u1161\u11ab.", 1, 3],
    ["a letter of Devanagari and its vowel", "हि.", 1, 2],
    ["a line break in two parts", "a\r\nb", 2, 3],
    ["the end", "ab", 5, 2],
  ])("does not tear %s", (_, text, position, end) => {
    expect(characterEnd(text, position)).toBe(end);
  });

  it("always moves on, and stays within the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.nat(20), (text, position) => {
        const end = characterEnd(text, position);
        expect(end).toBeGreaterThanOrEqual(Math.min(position, text.length));
        expect(end).toBeLessThanOrEqual(text.length);
        expect(
          end < text.length && /[\ud800-\udbff]$/.test(text.slice(0, end)) && /^[\udc00-\udfff]/.test(text.slice(end)),
        ).toBe(false);
      }),
    );
  });
});

describe("openCharacter", () => {
  it.each([
    ["a family without its end", "Hi 👨‍👩‍", 3],
    ["an emoji, which may get a skin tone", "Hi 👍", 3],
    ["half of a flag", "🇩🇪🇫", 4],
    ["half of a pair", "Hi \ud83d", 3],
    ["a consonant, which may get a vowel", "नमस्", 2],
    ["the first part of a Korean syllable", "가\u1112", 1],
  ])("is %s", (_, text, start) => {
    expect(openCharacter(text)).toBe(start);
  });

  it.each(["", "Hi", "日本", "مرحبا", "👍 ", "한국"])("is none at the end of %j", (text) => {
    expect(openCharacter(text)).toBe(text.length);
  });
});
