import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { describe, expect, it } from "vitest";

const { BROWSERS } = (await import(new URL("../../library-bundle.mjs", import.meta.url).href)) as {
  BROWSERS: string[];
};
const SCRIPT = fileURLToPath(new URL("old-browser.mjs", import.meta.url));
const LIBRARY = fileURLToPath(new URL("../../lib/index.js", import.meta.url));
const README = fileURLToPath(new URL("../../README.md", import.meta.url));

/** What a process of its own prints, where the platform lacks much: a test runner could not do without. */
function asked(transport: string, ...fault: string[]): string {
  return execFileSync(process.execPath, [SCRIPT, transport, ...fault], { encoding: "utf8", timeout: 20_000 }).trim();
}

describe("in an old browser, beside scripts that extend Object.prototype", () => {
  it.each(["websocket", "sse", "long-poll"])("an answer comes by %s", (transport) => {
    expect(asked(transport)).toBe("Because.");
  });

  it.each(["websocket", "sse", "long-poll"])(
    "what can not be called at all is an error at once, by %s",
    (transport) => {
      expect(asked(transport, "fault")).toBe("protocol after 0 calls");
    },
  );
});

describe("the oldest browsers", () => {
  it("can read the library's syntax", () => {
    const library = readFileSync(LIBRARY, "utf8");
    const [lowered, newest] = [BROWSERS, "esnext"].map((target) => transformSync(library, { target }).code);
    expect(lowered).toBe(newest);
  });

  it("are named in the README", () => {
    const readme = readFileSync(README, "utf8").replaceAll("\n", " ");
    for (const browser of BROWSERS) {
      const [, name, version] = /^(\D+)(.*)$/.exec(browser) ?? [];
      expect(readme.toLowerCase()).toMatch(new RegExp(`${name}[^.]*? ${version}\\b`));
    }
  });
});
