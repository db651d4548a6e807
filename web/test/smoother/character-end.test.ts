import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { characterEnd } from "../../src/smoother/character-end.ts";

describe("characterEnd", () => {
  it.each([
    ["plain text", "abc", 1, 1],
    ["half of a pair", "a😀b", 2, 3],
    ["an accent of its own", "e\u0301x", 1, 2],
    ["a skin tone", "👍🏽!", 2, 4],
    ["a family", "👨‍👩‍👧.", 2, 8],
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
