import { describe, expect, it } from "vitest";
import { textContent } from "../../src/client/content.ts";
import { type Outcome, ResponseLog, type Restart } from "../../src/client/response-log.ts";

function holding(...pieces: [from: number, index: number, text: string][]): ResponseLog {
  const log = new ResponseLog();
  for (const [from, index, text] of pieces) log.append(from, index, textContent(text));
  return log;
}

/** A restart by the owner that has the response already. */
function restart(index: number, fromIndex: number, epoch = 1): Restart {
  return { index, from_index: fromIndex, epoch };
}

function grown(text: string, from: number, index = from): Outcome {
  return { kind: "appended", growth: { type: "delta", text, from, index } };
}

const COMPLETE = { kind: "restarted", complete: true };

describe("ResponseLog", () => {
  it("begins empty", () => {
    const log = new ResponseLog();
    expect([log.text, log.lastIndex]).toEqual(["", -1]);
  });

  it("appends deltas in order", () => {
    const log = holding([0, 0, "Even"], [1, 1, "flow"]);
    expect([log.text, log.lastIndex]).toEqual(["Evenflow", 1]);
  });

  it("appends a joined piece as one", () => {
    const log = holding([0, 0, "a"]);
    expect(log.append(1, 3, textContent("bcd"))).toEqual(grown("bcd", 1, 3));
    expect(log.lastIndex).toBe(3);
  });

  it("ignores what it holds already, joined or not", () => {
    const log = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "c"]);
    expect(log.append(1, 1, textContent("b"))).toEqual({ kind: "duplicate" });
    expect(log.append(0, 2, textContent("abc"))).toEqual({ kind: "duplicate" });
    expect(log.text).toBe("abc");
  });

  it("takes only the new part of a piece that overlaps", () => {
    const log = holding([0, 0, "a"], [1, 1, "b"]);
    expect(log.append(1, 3, textContent("bcd"))).toEqual(grown("cd", 2, 3));
    expect(log.text).toBe("abcd");
  });

  it("sees a gap where an overlap cannot be trusted", () => {
    const inside = holding([0, 2, "abc"]);
    expect(inside.append(1, 3, textContent("bcd"))).toEqual({ kind: "gap" });
    const different = holding([0, 0, "a"], [1, 1, "b"]);
    expect(different.append(1, 2, textContent("xy"))).toEqual({ kind: "gap" });
    expect(different.text).toBe("ab");
  });

  it("takes only the new part of other pieces that overlap, if they are of one kind", () => {
    const log = new ResponseLog();
    const reasoning = (text: string) => ({ ...textContent(text), kind: "reasoning" });
    log.append(0, 0, reasoning("a"));
    log.append(1, 1, reasoning("b"));
    expect(log.append(0, 2, textContent("abc"))).toEqual({ kind: "gap" });
    const part = { type: "reasoning", text: "abc" };
    expect(log.append(1, 2, reasoning("bc"))).toEqual({
      kind: "appended",
      growth: { type: "part", position: 0, part, from: 2, index: 2 },
    });
    expect([log.parts, log.text]).toEqual([[part], ""]);
    log.append(3, 3, textContent("text"));
    expect(log.restart(restart(4, 1))).toEqual(COMPLETE);
    expect(log.parts).toEqual([{ type: "reasoning", text: "ab" }]);
  });

  it("sees a gap and keeps what it has", () => {
    const log = holding([0, 0, "a"]);
    expect(log.append(2, 2, textContent("c"))).toEqual({ kind: "gap" });
    expect(log.append(1, 1, textContent("b"))).toEqual(grown("b", 1));
    expect(log.append(2, 2, textContent("c"))).toEqual(grown("c", 2));
    expect(log.text).toBe("abc");
  });

  it("counts a delta without text", () => {
    const log = holding([0, 0, ""], [1, 1, "b"]);
    expect([log.text, log.lastIndex]).toEqual(["b", 1]);
  });

  it("keeps surrogate pairs whole across a boundary between them", () => {
    const [high, low] = ["\ud83c", "\udf0a"];
    expect(holding([0, 0, high], [1, 1, low]).text).toBe("🌊");
  });

  describe("when the response restarts", () => {
    it("begins again from nothing", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"]);
      expect(log.restart(restart(2, -1))).toEqual(COMPLETE);
      log.append(3, 3, textContent("new"));
      expect([log.text, log.lastIndex]).toEqual(["new", 3]);
    });

    it("keeps the text up to an index", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "c"]);
      expect(log.restart(restart(3, 1))).toEqual(COMPLETE);
      expect(log.text).toBe("ab");
      log.append(4, 4, textContent("d"));
      expect(log.text).toBe("abd");
    });

    it("can restart from an earlier restart", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"]);
      log.restart(restart(2, 0));
      log.append(3, 3, textContent("c"));
      expect(log.restart(restart(4, 2))).toEqual(COMPLETE);
      expect(log.text).toBe("a");
    });

    it("counts once", () => {
      const log = holding([0, 0, "a"]);
      log.restart(restart(1, -1));
      log.append(2, 2, textContent("b"));
      expect(log.restart(restart(1, -1))).toEqual({ kind: "duplicate" });
      expect(log.text).toBe("b");
    });

    it("is a gap when something before it is missing", () => {
      const log = holding([0, 0, "a"]);
      expect(log.restart(restart(2, -1))).toEqual({ kind: "gap" });
      expect(log.text).toBe("a");
    });

    it("goes back to where a joined piece began, when the cut is inside it", () => {
      const log = holding([0, 0, "a"], [1, 4, "bcde"]);
      expect(log.restart(restart(5, 2))).toEqual({ kind: "restarted", complete: false });
      expect([log.text, log.lastIndex]).toEqual(["a", 0]);
    });
  });

  describe("when another owner goes on with the response", () => {
    it("goes on behind the marker, when nothing was lost", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"]);
      expect(log.restart(restart(2, 1, 2))).toEqual(COMPLETE);
      log.append(3, 3, textContent("c"));
      expect([log.text, log.lastIndex, log.epoch]).toEqual(["abc", 3, 2]);
    });

    it("takes away what the earlier owner sent and never put on record", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "lost"], [3, 3, "too"]);
      expect(log.restart(restart(2, 1, 2))).toEqual(COMPLETE);
      log.append(3, 3, textContent("c"));
      expect([log.text, log.epoch]).toEqual(["abc", 2]);
    });

    it("begins anew where the new owner does", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"], [2, 2, "lost"]);
      expect(log.restart(restart(2, -1, 2))).toEqual(COMPLETE);
      log.append(3, 3, textContent("new"));
      expect([log.text, log.lastIndex, log.epoch]).toEqual(["new", 3, 2]);
    });

    it("drops a joined piece that has what was lost in it, and is fetched again from before it, as the epoch before", () => {
      const log = holding([0, 0, "a"], [1, 3, "b|lost|too"]);
      expect(log.restart(restart(2, 1, 2))).toEqual({ kind: "restarted", complete: false });
      expect([log.text, log.lastIndex, log.epoch]).toEqual(["a", 0, 1]);
    });

    it("counts the marker once", () => {
      const log = holding([0, 0, "a"]);
      log.restart(restart(1, 0, 2));
      log.append(2, 2, textContent("b"));
      expect(log.restart(restart(1, 0, 2))).toEqual({ kind: "duplicate" });
      expect(log.text).toBe("ab");
    });

    it("does not take what is confirmed for lost", () => {
      const log = holding([0, 0, "a"], [1, 1, "b"]);
      log.confirm(2);
      expect(log.restart(restart(1, 0, 2))).toEqual({ kind: "duplicate" });
      log.confirm(1);
      expect([log.text, log.epoch]).toEqual(["ab", 2]);
    });

    it.each([1, 2])("replaces everything by the log of epoch %i, from index 0 on", (epoch) => {
      const log = holding([0, 0, "a"], [1, 4, "bcde"]);
      expect(log.restart(restart(-1, -1, epoch))).toEqual(COMPLETE);
      expect([log.text, log.lastIndex, log.epoch]).toEqual(["", -1, epoch]);
      log.append(0, 1, textContent("xy"));
      expect([log.text, log.lastIndex]).toEqual(["xy", 1]);
    });
  });

  it("comes out the same whatever is lost, repeated or joined on the way", () => {
    const deltas = Array.from({ length: 60 }, (_, index) => `${index} `);
    const log = new ResponseLog();
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % below;
    };
    while (log.lastIndex < 59) {
      const from = Math.max(0, Math.min(59, log.lastIndex + random(5) - 2));
      const index = Math.min(59, from + random(4));
      log.append(from, index, textContent(deltas.slice(from, index + 1).join("")));
    }
    expect(log.text).toBe(deltas.join(""));
  });
});
