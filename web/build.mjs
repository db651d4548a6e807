// Builds the page into dist/: assets with the hash of their content in their names, then index.html, which names them.
import { copyFile, readFile, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

process.chdir(fileURLToPath(new URL(".", import.meta.url)));
await rm("dist", { recursive: true, force: true });

const [style, main] = await Promise.all([
  bundled({ style: "src/page/styles/main.css" }, {}),
  // The element's style goes into its script, as text.
  bundled({ main: "src/page/main.ts" }, { ".css": "text" }),
]);
await copyFile("src/page/favicon.svg", "dist/assets/favicon.svg");

const built = [style, main].flatMap(({ metafile }) => Object.keys(metafile.outputs)).map((path) => basename(path));
const page = await readFile("src/page/index.html", "utf8");
// Last, because its time tells make that the whole build is done.
await writeFile("dist/index.html", page.replace(/(?<=\/assets\/)(main|style)\.(js|css)/g, nameWithHash));

function bundled(entryPoints, loader) {
  return build({
    entryPoints,
    loader,
    outdir: "dist/assets",
    entryNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    sourcemap: true,
    format: "esm",
    target: ["chrome116", "firefox124", "safari17.4"],
    metafile: true,
    logLevel: "warning",
  });
}

function nameWithHash(asset, name, extension) {
  const found = built.find((file) => file.startsWith(`${name}-`) && file.endsWith(`.${extension}`));
  if (found === undefined) throw new Error(`index.html names ${asset}, which was not built`);
  return found;
}
