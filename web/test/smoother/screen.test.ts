// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { browserScreen } from "../../src/smoother/screen.ts";

let frames: Map<number, () => void>;

beforeEach(() => {
  frames = new Map();
  vi.stubGlobal("requestAnimationFrame", (draw: () => void) => frames.set(frames.size + 1, draw).size);
  vi.stubGlobal("cancelAnimationFrame", (frame: number) => frames.delete(frame));
});

afterEach(() => {
  vi.unstubAllGlobals();
});

function frame(): void {
  for (const draw of [...frames.values()]) draw();
}

function visibilityChanges(): void {
  document.dispatchEvent(new Event("visibilitychange"));
}

it("draws once before the next frame", () => {
  const draw = vi.fn();
  browserScreen.onNextFrame(draw);
  expect(draw).not.toHaveBeenCalled();
  frame();
  visibilityChanges();
  expect(draw).toHaveBeenCalledTimes(1);
});

it("draws once when the page is hidden before there is a frame", () => {
  const draw = vi.fn();
  browserScreen.onNextFrame(draw);
  visibilityChanges();
  expect(draw).toHaveBeenCalledTimes(1);
  frame();
  visibilityChanges();
  expect(draw).toHaveBeenCalledTimes(1);
});
