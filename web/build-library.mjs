// Builds the library into lib/: index.js, bundled and minified, and index.d.ts, the declarations of the public API alone.
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/**
 * Members that are neither part of the public API nor of anything that leaves the process (the wire, the storage), nor
 * names of the platform's: they may get short ones.
 */
const INTERNAL =
  "abandon abandoned acknowledge append asks begin choose climb confirm deliver emit ended fail failures " +
  "fallBack follow hold inquiry isBegunBy isLeft isOpen isOver isUsable kept listen onArrival onLeave onLost open patienceMs " +
  "put reading receive refusal request restsUntil run stopped take tell timeoutMs unlisten bearer complete line arrival session " +
  "answer connect listener name paused restart";

/** The same for what is stored, where a name must stay what it is from one version to the next. */
const STORED = {
  asked: "a",
  credentials: "c",
  lastMessageId: "l",
  previousMessageId: "p",
  renewAt: "r",
  sessionId: "s",
  websocketUrl: "w",
};

process.chdir(fileURLToPath(new URL(".", import.meta.url)));
await rm("lib", { recursive: true, force: true });
await build({
  entryPoints: ["src/client/index.ts"],
  outfile: "lib/index.js",
  bundle: true,
  minify: true,
  // Beside the bundle, without a mention in it.
  sourcemap: "external",
  format: "esm",
  target: ["chrome116", "firefox124", "safari17.4"],
  mangleProps: new RegExp(`^(${[...INTERNAL.split(" "), ...Object.keys(STORED)].join("|")})$`),
  mangleCache: STORED,
  logLevel: "warning",
});
