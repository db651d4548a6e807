import { describe, expect, it } from "vitest";
import { ResponseText, type Restart } from "../../src/client/response-text.ts";

function holding(...pieces: [from: number, index: number, text: string][]): ResponseText {
  const text = new ResponseText();
  for (const piece of pieces) text.append(...piece);
  return text;
}

/** A restart by the owner that has the response already. */
function restart(index: number, fromIndex: number, epoch = 1): Restart {
  return { index, from_index: fromIndex, epoch };
}

const COMPLETE = { kind: "restarted", complete: true };

describe("ResponseText", () => {
  it("begins empty", () => {
    const text = new ResponseText();
    expect([text.text, text.lastIndex]).toEqual(["", -1]);
  });

  it("appends deltas in order", () => {
    const text = holding([0, 0, "Even"], [1, 1, "flow"]);
    expect([text.text, text.lastIndex]).toEqual(["Evenflow", 1]);
  });

  it("appends a joined piece as one", () => {
    const text = holding([0, 0, "a"]);
    expect(text.append(1, 3, "bcd")).toEqual({ kind: "appended", text: "bcd" });
    expect(text.lastIndex).toBe(3);
  });

  it("ignores what it holds already, joined or not", () => {
    const text = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "c"]);
    expect(text.append(1, 1, "b")).toEqual({ kind: "duplicate" });
    expect(text.append(0, 2, "abc")).toEqual({ kind: "duplicate" });
    expect(text.text).toBe("abc");
  });

  it("takes only the new part of a piece that overlaps", () => {
    const text = holding([0, 0, "a"], [1, 1, "b"]);
    expect(text.append(1, 3, "bcd")).toEqual({ kind: "appended", text: "cd" });
    expect(text.text).toBe("abcd");
  });

  it("sees a gap where an overlap cannot be trusted", () => {
    const inside = holding([0, 2, "abc"]);
    expect(inside.append(1, 3, "bcd")).toEqual({ kind: "gap" });
    const different = holding([0, 0, "a"], [1, 1, "b"]);
    expect(different.append(1, 2, "xy")).toEqual({ kind: "gap" });
    expect(different.text).toBe("ab");
  });

  it("sees a gap and keeps what it has", () => {
    const text = holding([0, 0, "a"]);
    expect(text.append(2, 2, "c")).toEqual({ kind: "gap" });
    expect(text.append(1, 1, "b")).toEqual({ kind: "appended", text: "b" });
    expect(text.append(2, 2, "c")).toEqual({ kind: "appended", text: "c" });
    expect(text.text).toBe("abc");
  });

  it("counts a delta without text", () => {
    const text = holding([0, 0, ""], [1, 1, "b"]);
    expect([text.text, text.lastIndex]).toEqual(["b", 1]);
  });

  it("keeps surrogate pairs whole across a boundary between them", () => {
    const [high, low] = ["\ud83c", "\udf0a"];
    expect(holding([0, 0, high], [1, 1, low]).text).toBe("🌊");
  });

  describe("when the response restarts", () => {
    it("begins again from nothing", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"]);
      expect(text.restart(restart(2, -1))).toEqual(COMPLETE);
      text.append(3, 3, "new");
      expect([text.text, text.lastIndex]).toEqual(["new", 3]);
    });

    it("keeps the text up to an index", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "c"]);
      expect(text.restart(restart(3, 1))).toEqual(COMPLETE);
      expect(text.text).toBe("ab");
      text.append(4, 4, "d");
      expect(text.text).toBe("abd");
    });

    it("can restart from an earlier restart", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"]);
      text.restart(restart(2, 0));
      text.append(3, 3, "c");
      expect(text.restart(restart(4, 2))).toEqual(COMPLETE);
      expect(text.text).toBe("a");
    });

    it("counts once", () => {
      const text = holding([0, 0, "a"]);
      text.restart(restart(1, -1));
      text.append(2, 2, "b");
      expect(text.restart(restart(1, -1))).toEqual({ kind: "duplicate" });
      expect(text.text).toBe("b");
    });

    it("is a gap when something before it is missing", () => {
      const text = holding([0, 0, "a"]);
      expect(text.restart(restart(2, -1))).toEqual({ kind: "gap" });
      expect(text.text).toBe("a");
    });

    it("goes back to where a joined piece began, when the cut is inside it", () => {
      const text = holding([0, 0, "a"], [1, 4, "bcde"]);
      expect(text.restart(restart(5, 2))).toEqual({ kind: "restarted", complete: false });
      expect([text.text, text.lastIndex]).toEqual(["a", 0]);
    });
  });

  describe("when another owner goes on with the response", () => {
    it("goes on behind the marker, when nothing was lost", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"]);
      expect(text.restart(restart(2, 1, 2))).toEqual(COMPLETE);
      text.append(3, 3, "c");
      expect([text.text, text.lastIndex, text.epoch]).toEqual(["abc", 3, 2]);
    });

    it("takes away what the earlier owner sent and never put on record", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "lost"], [3, 3, "too"]);
      expect(text.restart(restart(2, 1, 2))).toEqual(COMPLETE);
      text.append(3, 3, "c");
      expect([text.text, text.epoch]).toEqual(["abc", 2]);
    });

    it("begins anew where the new owner does", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "lost"]);
      expect(text.restart(restart(2, -1, 2))).toEqual(COMPLETE);
      text.append(3, 3, "new");
      expect([text.text, text.lastIndex, text.epoch]).toEqual(["new", 3, 2]);
    });

    it("drops a joined piece that has what was lost in it, and is fetched again from before it, as the epoch before", () => {
      const text = holding([0, 0, "a"], [1, 3, "b|lost|too"]);
      expect(text.restart(restart(2, 1, 2))).toEqual({ kind: "restarted", complete: false });
      expect([text.text, text.lastIndex, text.epoch]).toEqual(["a", 0, 1]);
    });

    it("counts the marker once", () => {
      const text = holding([0, 0, "a"]);
      text.restart(restart(1, 0, 2));
      text.append(2, 2, "b");
      expect(text.restart(restart(1, 0, 2))).toEqual({ kind: "duplicate" });
      expect(text.text).toBe("ab");
    });

    it("does not take what is confirmed for lost", () => {
      const text = holding([0, 0, "a"], [1, 1, "b"]);
      text.confirm(2);
      expect(text.restart(restart(1, 0, 2))).toEqual({ kind: "duplicate" });
      text.confirm(1);
      expect([text.text, text.epoch]).toEqual(["ab", 2]);
    });

    it.each([1, 2])("replaces everything by the log of epoch %i, from index 0 on", (epoch) => {
      const text = holding([0, 0, "a"], [1, 4, "bcde"]);
      expect(text.restart(restart(-1, -1, epoch))).toEqual(COMPLETE);
      expect([text.text, text.lastIndex, text.epoch]).toEqual(["", -1, epoch]);
      text.append(0, 1, "xy");
      expect([text.text, text.lastIndex]).toEqual(["xy", 1]);
    });
  });

  it("comes out the same whatever is lost, repeated or joined on the way", () => {
    const deltas = Array.from({ length: 60 }, (_, index) => `${index} `);
    const text = new ResponseText();
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % below;
    };
    while (text.lastIndex < 59) {
      const from = Math.max(0, Math.min(59, text.lastIndex + random(5) - 2));
      const index = Math.min(59, from + random(4));
      text.append(from, index, deltas.slice(from, index + 1).join(""));
    }
    expect(text.text).toBe(deltas.join(""));
  });
});
