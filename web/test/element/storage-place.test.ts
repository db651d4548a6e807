import { beforeEach, describe, expect, it, vi } from "vitest";
import { places, storageOf, takePlace } from "../../src/element/storage-place.ts";

beforeEach(() => {
  places.clear();
});

describe("places in the tab's storage", () => {
  it("are by id, else by number, and the same after a reload", () => {
    const take = () => ["", "", "help", "", "help"].map(takePlace);
    const before = take();
    expect(before).toEqual(["", "#2", "help", "#3", "help#2"]);
    places.clear();
    expect(take()).toEqual(before);
  });

  it("can be had again when an element is gone", () => {
    takePlace("");
    places.delete(takePlace(""));
    expect(takePlace("")).toBe("#2");
  });

  it("keep their own, the first where clients keep it", () => {
    const kept = new Map<string, string>();
    const setItem = (key: string, value: string): void => void kept.set(key, value);
    vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem });
    storageOf("").setItem("k", "first");
    storageOf("#2").setItem("k", "second");
    expect([storageOf("").getItem("k"), storageOf("#2").getItem("k"), kept.get("k")]).toEqual([
      "first",
      "second",
      "first",
    ]);
  });
});
