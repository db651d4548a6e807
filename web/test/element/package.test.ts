import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const WEB = fileURLToPath(new URL("../..", import.meta.url));
const CONFIG = {
  target: "ES2023",
  module: "ESNext",
  moduleResolution: "bundler",
  lib: ["ES2023", "DOM", "DOM.Iterable"],
  types: [],
  jsx: "react-jsx",
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  // The packages are links: what they need is looked for beside the links.
  preserveSymlinks: true,
};

describe("the element in the package", () => {
  let app: string;

  beforeEach(() => {
    app = mkdtempSync(join(tmpdir(), "evenflow-app-"));
    for (const file of ["package.json", "lib"]) install(`@evenflow/client/${file}`, join(WEB, file));
  });

  afterEach(() => {
    rmSync(app, { recursive: true });
  });

  function install(name: string, from: string): void {
    const path = join(app, "node_modules", name);
    mkdirSync(join(path, ".."), { recursive: true });
    symlinkSync(from, path);
  }

  /** What the compiler has against a file of the app. */
  function complaints(file: string, code: string): string {
    writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions: CONFIG, files: [file] }));
    writeFileSync(join(app, file), code);
    try {
      execFileSync(join(WEB, "node_modules/.bin/tsc"), ["-p", app]);
      return "";
    } catch (error) {
      return String((error as { stdout?: unknown }).stdout ?? error);
    }
  }

  it("is known to React's JSX, with its attributes, properties and events", () => {
    for (const name of ["@types/react", "csstype"]) install(name, join(WEB, "node_modules", name));
    const code = `
      import { connect } from "@evenflow/client";
      import type { EvenflowChat } from "@evenflow/client/element";
      const client = connect({ url: "https://chat.example.com" });
      export const chat = (
        <evenflow-chat
          url="https://chat.example.com" theme="dark" placeholder="Ask" maths="off" images="ask" lang="de" client={client}
          strings={{ ask: "Go", errors: { busy: ["Busy.", "Wait."] } }}
          onevenflow-ask={({ detail }) => detail.question.trim()}
          ref={(element: EvenflowChat | null) => element?.focus()}
        >
          <h2 slot="welcome">Hello</h2>
        </evenflow-chat>
      );
      // @ts-expect-error: a theme that it hasn't
      export const wrong = <evenflow-chat theme="blue" />;
    `;
    expect(complaints("app.tsx", code)).toBe("");
  });

  it("is known without React, too", () => {
    const code = `
      import "@evenflow/client/element";
      document.querySelector("evenflow-chat")?.ask("Well?");
      document.querySelector("evenflow-chat")?.addEventListener("evenflow-ask", ({ detail }) => detail.question.trim());
    `;
    expect(complaints("app.ts", code)).toBe("");
  });

  it("can be imported where pages are rendered, without elements", async () => {
    expect(globalThis).not.toHaveProperty("HTMLElement");
    await expect(import(new URL("../../lib/element.js", import.meta.url).href)).resolves.toBeDefined();
  });
});
