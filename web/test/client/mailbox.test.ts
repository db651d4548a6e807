import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Mailbox } from "../../src/client/mailbox.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("Mailbox", () => {
  it("gives items in order, whether they were there before or come later", async () => {
    const mailbox = new Mailbox<number>();
    mailbox.put(1);
    mailbox.put(2);
    expect([await mailbox.take(10), await mailbox.take(10)]).toEqual([1, 2]);
    const third = mailbox.take(10);
    mailbox.put(3);
    expect(await third).toBe(3);
  });

  it("gives nothing when patience ends, and is good for the next item", async () => {
    const mailbox = new Mailbox<number>();
    const nothing = mailbox.take(10);
    await vi.advanceTimersByTimeAsync(10);
    expect(await nothing).toBeUndefined();
    mailbox.put(1);
    expect(await mailbox.take(10)).toBe(1);
  });

  it("gives what it holds before it fails, and fails with the first error", async () => {
    const mailbox = new Mailbox<number>();
    mailbox.put(1);
    mailbox.fail(new Error("first"));
    mailbox.fail(new Error("second"));
    expect(await mailbox.take(10)).toBe(1);
    await expect(mailbox.take(10)).rejects.toThrow("first");
    await expect(mailbox.take(10)).rejects.toThrow("first");
  });
});
