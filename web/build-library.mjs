// Builds the library into lib/: index.js, bundled and minified, and index.d.ts, the declarations of its public API alone;
// ai-sdk.js with its declarations, the transport of AI SDK's chats; and element.js with its own, which registers the element.
// With --check it then fails where the bundle has grown too large, a short name is in the place of one that others know, or
// the API is not what api.d.ts says; with --accept it makes api.d.ts say so, for the review to see.
import { execFileSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { AI_SDK, ELEMENT, INTERNAL, LIBRARY, withOwnProperties } from "./library-bundle.mjs";

const MOST_BYTES = 13.25 * 1024;
/** The modules that the public API is declared in; nothing in them may need another one. */
const PUBLIC = ["api", "errors", "index"];
/** Those of the element. */
const ELEMENT_TYPES = ["evenflow-chat", "chat-client", "strings", "extras/diagrams"];
process.chdir(fileURLToPath(new URL(".", import.meta.url)));
await mkdir("lib/element/extras", { recursive: true });
const { outputFiles } = await build({ ...LIBRARY, outfile: "lib/index.js", write: false });
await put("lib/index.js", outputFiles[0].contents);
await put("lib/index.d.ts", await declarations());
const transport = await build({ ...AI_SDK, outfile: "lib/ai-sdk.js", write: false });
await put("lib/ai-sdk.js", transport.outputFiles[0].contents);
await put("lib/ai-sdk.d.ts", (await emitted("src/ai-sdk", "chat-transport"))[0]);
const element = await build({ ...ELEMENT, write: false });
for (const { path, text } of element.outputFiles) await put(relative(".", path), withOwnProperties(text));
for (const [name, text] of await elementTypes()) await put(`lib/element/${name}.d.ts`, text);
const exported = ELEMENT_TYPES.map((name) => `export type * from "./element/${name}.js";\n`);
await put("lib/element.d.ts", `${exported.join("")}import "./element/jsx.js";\n`);
if (process.argv.includes("--accept")) await copyFile("lib/index.d.ts", "api.d.ts");
if (process.argv.includes("--check")) await check();

/** Writes a file whole or not at all: another test may be packing it. */
async function put(path, content) {
  const unfinished = `node_modules/.${process.pid}`;
  await writeFile(unfinished, content);
  await rename(unfinished, path);
}

async function declarations() {
  return joined(await emitted("src/client", ...PUBLIC));
}

/** The declarations of these modules of a project. */
async function emitted(project, ...names) {
  const folder = await mkdtemp(join(tmpdir(), "evenflow-"));
  try {
    const emit = [
      "--noEmit",
      "false",
      "--declaration",
      "--emitDeclarationOnly",
      "--rootDir",
      "src",
      "--outDir",
      folder,
    ];
    execFileSync("node_modules/.bin/tsc", ["-p", project, ...emit]);
    return await Promise.all(
      names.map((name) => readFile(join(folder, project.replace("src/", ""), `${name}.d.ts`), "utf8")),
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The declarations of the element's modules, by their names, with JSX's; as they name each other in a package. */
async function elementTypes() {
  const texts = await emitted("src/element", ...ELEMENT_TYPES);
  texts.push(await readFile("src/element/jsx.d.ts", "utf8"));
  const names = [...ELEMENT_TYPES, "jsx"];
  const wanted = texts.flatMap((text, position) =>
    [...text.matchAll(/ from "(\.[\w./-]+)\.ts"/g)].map(([, path]) => join(dirname(names[position]), path)),
  );
  const missing = wanted.filter((name) => !ELEMENT_TYPES.includes(name));
  if (missing.length > 0) throw new Error(`the element's types need ${missing.join(", ")}`);
  return names.map((name, position) => [name, texts[position].replaceAll(/(?<= from "\.[\w./-]+)\.ts(?=")/g, ".js")]);
}

/** One module of several: without what they import and export from each other, and with the last one's exports. */
function joined(texts) {
  const outside = texts
    .flatMap((text) => [...text.matchAll(/ from "\.\/(\w[\w-]*)\.(?:ts|js)"/g)])
    .map(([, name]) => name);
  const missing = outside.filter((name) => !PUBLIC.includes(name));
  if (missing.length > 0) throw new Error(`the public API needs ${missing.join(", ")}`);
  const exported = [...texts.at(-1).matchAll(/^export (?:type )?\{([^}]*)\} from /gm)].flatMap(([, names]) =>
    names.split(","),
  );
  const names = exported.map((name) => name.replace("type ", "").trim()).filter((name) => name !== "");
  const bodies = texts.map((text) =>
    text
      .replace(/^(?:import|export) [^;]* from [^;]*;\n|^export \{\};\n/gm, "")
      .replace(/^export (?:declare )?/gm, "declare ")
      .trim(),
  );
  return `${bodies.join("\n\n")}\n\nexport { connect, ${names.sort().join(", ")} };\n`;
}

async function check() {
  const bytes = gzipSync(await readFile("lib/index.js"), { level: 9 }).length;
  if (bytes >= MOST_BYTES) fail(`lib/index.js has ${bytes} bytes gzipped; it must stay under ${MOST_BYTES}`);
  if ((await readFile("api.d.ts", "utf8")) !== (await readFile("lib/index.d.ts", "utf8"))) {
    fail("the public API is not what api.d.ts says: look at it, and run `npm run api` if that is meant");
  }
  const outside = await namesOutside();
  const shortened = INTERNAL.split(" ").filter((name) => outside.has(name));
  if (shortened.length > 0)
    fail(`library-bundle.mjs shortens names of the server's, or of the API: ${shortened.join(", ")}`);
  if (process.exitCode !== 1)
    console.log(`library: ${bytes} of ${MOST_BYTES} bytes gzipped; its API is as in api.d.ts`);
}

/** The names of members that the server sends, by its documents, and of the public API. */
async function namesOutside() {
  const names = new Set();
  const add = (value) => {
    if (typeof value !== "object" || value === null) return;
    for (const name of Object.keys(value.properties ?? {})) names.add(name);
    Object.values(value).forEach(add);
  };
  for (const document of ["openapi", "asyncapi"]) {
    add(JSON.parse(await readFile(`../docs/${document}.json`, "utf8")));
  }
  const api = await readFile("api.d.ts", "utf8");
  for (const [, name] of api.matchAll(/^ +(?:readonly )?(?:get )?(\w+)\??[:(<]/gm)) names.add(name);
  return names;
}

function fail(what) {
  console.error(what);
  process.exitCode = 1;
}
