// Builds into dist/: the two modules that pages anywhere load, by names that stay; the page's assets, with the hash of their
// content in their names; then index.html, which names those.
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { BROWSERS, LIBRARY, withOwnProperties } from "./library-bundle.mjs";

process.chdir(fileURLToPath(new URL(".", import.meta.url)));
await rm("dist", { recursive: true, force: true });

// The element's style goes into its script, as text.
const SCRIPT = { loader: { ".css": "text" }, format: "esm" };
const HASHED = { outdir: "dist/assets", entryNames: "[name]-[hash]", sourcemap: true, metafile: true };
// What only some answers need is loaded when they do.
const EXTRAS = ["src/element/extras/maths.ts", "src/element/extras/code-colours.ts"];
const extras = await bundled({ entryPoints: EXTRAS, ...SCRIPT, ...HASHED });
const [style, main] = await Promise.all([
  bundled({ entryPoints: { style: "src/page/styles/main.css" }, ...HASHED }),
  bundled({ entryPoints: { main: "src/page/main.ts" }, ...SCRIPT, ...HASHED, plugins: [extrasFrom("./")] }),
  bundled({
    entryPoints: ["src/element/served.ts"],
    outfile: "dist/evenflow-chat.js",
    ...SCRIPT,
    plugins: [extrasFrom("./assets/")],
  }),
  build({ ...LIBRARY, outfile: "dist/client.js" }),
]);
await copyFile("src/page/favicon.svg", "dist/assets/favicon.svg");

const built = [style, main].flatMap(({ metafile }) => Object.keys(metafile.outputs)).map((path) => basename(path));
const page = await readFile("src/page/index.html", "utf8");
// Last, because its time tells make that the whole build is done.
await writeFile("dist/index.html", page.replace(/(?<="assets\/)(main|style)\.(js|css)/g, nameWithHash));

async function bundled(options) {
  const shared = { bundle: true, minify: true, target: BROWSERS, logLevel: "warning", write: false };
  const result = await build({ ...shared, ...options });
  for (const { path, text } of result.outputFiles) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, withOwnProperties(text));
  }
  return result;
}

/** Has a module import the extras from `folder`, as it is seen from there. */
function extrasFrom(folder) {
  return {
    name: "extras",
    setup({ onResolve }) {
      onResolve({ filter: /^\.\// }, ({ kind, path }) => {
        if (kind !== "dynamic-import") return undefined;
        return { path: folder + builtFrom(extras, basename(path, ".ts")), external: true };
      });
    },
  };
}

function builtFrom({ metafile }, name) {
  const files = Object.keys(metafile.outputs).map((path) => basename(path));
  return files.find((file) => file.startsWith(`${name}-`) && file.endsWith(".js"));
}

function nameWithHash(asset, name, extension) {
  const found = built.find((file) => file.startsWith(`${name}-`) && file.endsWith(`.${extension}`));
  if (found === undefined) throw new Error(`index.html names ${asset}, which was not built`);
  return found;
}
