// How the library is bundled, into the package and beside the page alike: one module, minified.

/**
 * Members that are neither part of the public API nor of anything that leaves the process (the wire, the storage), nor
 * names of the platform's: they may get short ones.
 */
const INTERNAL =
  "abandon abandoned acknowledge answer append arrival bearer begin choose climb complete confirm connect deliver emit " +
  "ended fail failures fallBack hold inquiry isBegunBy isLeft isOpen isOver isUsable kept line listen listener " +
  "name onArrival onLeave onLost open patienceMs paused put reading receive refusal request restart restsUntil run " +
  "session stopped growth content leave watcher onMessage take tell timeLimit unlisten wording call resolve reject doubt connectOrProbe " +
  "isReached whileReached failure giveUp opening serverUrl unlessOpen isUnderWay isSilent ring heardAt ageMs isSuspect wasRead suspect choice";
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

/** Options of esbuild, all but the output. */
export const LIBRARY = {
  entryPoints: ["src/client/index.ts"],
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome116", "firefox124", "safari17.4"],
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
