import { describe, expect, it } from "vitest";
import type { Screen } from "../../src/smoother/screen.ts";
import { SmoothText } from "../../src/smoother/smooth-text.ts";

/** A screen whose time passes only when told to, a frame at a time. */
class FakeScreen implements Screen {
  time = 0;
  still = false;
  hidden = false;
  #draws: (() => void)[] = [];

  now(): number {
    return this.time;
  }

  onNextFrame(draw: () => void): void {
    this.#draws.push(draw);
  }

  prefersStillness(): boolean {
    return this.still;
  }

  isHidden(): boolean {
    return this.hidden;
  }

  frame(ms = 16): void {
    this.time += ms;
    for (const draw of this.#draws.splice(0)) draw();
  }
}

const TEXT = "It is even, and nothing is lost.";

describe("SmoothText", () => {
  it("draws bit by bit, and says when all of it is drawn", async () => {
    const screen = new FakeScreen();
    const drawn: string[] = [];
    const text = new SmoothText(screen, (piece) => drawn.push(piece));
    text.push(TEXT);
    expect(drawn).toEqual([]);
    let done = false;
    const ended = text.end().then(() => {
      done = true;
    });
    for (let frame = 0; frame < 14; frame += 1) screen.frame();
    await ended;
    expect(done).toBe(true);
    expect(drawn.join("")).toBe(TEXT);
    expect(drawn.length).toBeGreaterThan(8);
  });

  it.each(["still", "hidden"] as const)("draws on arrival when the screen is to be, or is, %s", async (how) => {
    const screen = new FakeScreen();
    screen[how] = true;
    const drawn: string[] = [];
    const text = new SmoothText(screen, (piece) => drawn.push(piece));
    text.push(TEXT);
    text.push(TEXT);
    await text.end();
    expect(drawn).toEqual([TEXT, TEXT]);
  });

  it("waits for the rest of a character also when the screen is to be still", () => {
    const screen = new FakeScreen();
    screen.still = true;
    const drawn: string[] = [];
    const text = new SmoothText(screen, (piece) => drawn.push(piece));
    text.push("Hi 👨\u200d");
    text.push("👩!");
    text.push("🇩");
    for (let frame = 0; frame < 30; frame += 1) screen.frame();
    expect(drawn).toEqual(["Hi ", "👨\u200d👩!", "🇩"]);
  });

  it("ends when the screen is hidden while the last of it waits for a frame", async () => {
    const screen = new FakeScreen();
    const drawn: string[] = [];
    const text = new SmoothText(screen, (piece) => drawn.push(piece));
    text.push(TEXT);
    const ended = text.end();
    screen.hidden = true;
    screen.frame(1);
    await ended;
    expect(drawn.join("")).toBe(TEXT);
  });

  it("ends at once where nothing is left to draw", async () => {
    await expect(new SmoothText(new FakeScreen(), () => undefined).end()).resolves.toBeUndefined();
  });

  it("leaves out what a restart has replaced", async () => {
    const screen = new FakeScreen();
    const drawn: string[] = [];
    const text = new SmoothText(screen, (piece) => drawn.push(piece));
    text.push("never to be seen");
    text.restart();
    text.push("Anew.");
    const ended = text.end();
    for (let frame = 0; frame < 20; frame += 1) screen.frame();
    await ended;
    expect(drawn.join("")).toBe("Anew.");
  });

  it("leaves three quarters of the time to others when drawing is slow", () => {
    const screen = new FakeScreen();
    const draws: number[] = [];
    const text = new SmoothText(screen, () => {
      draws.push(screen.time);
      screen.time += 40;
    });
    for (let frame = 0; frame < 60; frame += 1) {
      text.push("some words ");
      screen.frame();
    }
    const gaps = draws.slice(1).map((at, position) => at - (draws[position] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(160);
  });
});
