// How the library is bundled, into the package and beside the page alike: one module, minified.

/**
 * Members that are neither part of the public API nor of anything that leaves the process (the wire, the storage), nor
 * names of the platform's: they may get short ones.
 */
export const INTERNAL =
  "abandon abandoned acknowledge append arrival bearer begin choose climb complete confirm connect deliver emit " +
  "ended fail failures fallBack hold inquiry isBegunBy isLeft isOpen isOver isUsable kept line listen listener " +
  "onArrival onLeave onLost open patienceMs paused put reading receive request restart restsUntil run " +
  "session stopped growth leave watcher onMessage take tell timeLimit unlisten wording resolve reject doubt connectOrProbe " +
  "isReached whileReached failure giveUp opening serverUrl unlessOpen isUnderWay isSilent ring heardAt ageMs isSuspect " +
  "wasRead suspect";
/** The same for what is stored, where a name must stay what it is from one version to the next. */
const STORED = {
  asked: "a",
  credentials: "c",
  lastMessageId: "l",
  previousMessageId: "p",
  renewAt: "r",
  sessionId: "s",
  socketUrl: "w",
};

/**
 * The oldest supported browsers. Windows 7 and 8.1 have no newer Chromium or Firefox, and iOS 16 has no newer Safari.
 */
export const BROWSERS = ["chrome109", "firefox115", "safari16.4"];

/** Options of esbuild, all but the output. */
export const LIBRARY = {
  entryPoints: ["src/client/index.ts"],
  bundle: true,
  minify: true,
  format: "esm",
  target: BROWSERS,
  mangleProps: new RegExp(`^(${[...INTERNAL.split(" "), ...Object.keys(STORED)].join("|")})$`),
  mangleCache: STORED,
  logLevel: "warning",
};

/** The same for the transport of AI SDK's chats, which stands alone. */
export const AI_SDK = {
  entryPoints: ["src/ai-sdk/chat-transport.ts"],
  bundle: true,
  minify: true,
  format: "esm",
  target: LIBRARY.target,
  logLevel: "warning",
};

/**
 * The same for the element, which registers itself. What only some answers need are modules of their own, in `element/`; the
 * library stays the one beside it. A bundler may give a module any address: without `url` the server is the page's own.
 */
export const ELEMENT = {
  entryPoints: { element: "src/element/served.ts" },
  outdir: "lib",
  chunkNames: "element/[name]",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: LIBRARY.target,
  loader: { ".css": "text" },
  define: { "import.meta.url": "location.origin" },
  plugins: [
    {
      name: "library",
      setup({ onResolve }) {
        onResolve({ filter: /\/client\/index\.ts$/ }, () => ({ path: "./index.js", external: true }));
      },
    },
  ],
  logLevel: "warning",
};

/**
 * Makes the bundle ignore properties that an old script added to `Object.prototype`. The bundler's loops over exports go
 * through inherited properties, too, and the browser rejects those.
 */
export function withOwnProperties(code) {
  const all = /for ?\(var ([\w$]+) in ([\w$]+)\)(?=\s*[\w$]+\([\w$]+, ?\1, ?\{\s*get: ?\2\[\1\])/g;
  return code.replace(all, "for(var $1 of Object.keys($2))");
}
