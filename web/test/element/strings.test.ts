// @vitest-environment jsdom
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { ENGLISH, LANGUAGES, languageAround, type Strings, stringsIn } from "../../src/element/strings.ts";
import { ChatScene, settle } from "./chat-scene.ts";
import { ScriptedClient } from "./scripted-client.ts";

const ELEMENT = join(import.meta.dirname, "../../src/element");
const OTHERS = Object.keys(LANGUAGES).filter((language) => language !== "en");
/** Texts that one language has in common with another: names, and what is nothing but a number and its unit. */
const IN_COMMON = ["took", "tokens", "codeIn"];
const MOMENT = new Date("2026-12-01T00:00:00Z");

/** All that a language says, by name: functions with something put in. */
function texts(strings: Strings): Map<string, string> {
  const all = new Map<string, string>();
  for (const [name, value] of Object.entries({ ...strings, ...strings.errors })) {
    if (typeof value === "string") all.set(name, value);
    else if (Array.isArray(value)) value.forEach((text, position) => void all.set(`${name} ${position}`, text));
    else if (typeof value === "function") all.set(name, said(name, value));
  }
  return all;
}

function said(name: string, speak: (...given: never[]) => string): string {
  const given: Record<string, unknown[]> = {
    budgetBeginsOn: [MOMENT],
    queued: [3, 40],
    incompleteBecause: ["X"],
    versionOf: [1, 2],
  };
  const number = /^(busyUntil|took|tokens|tryAgainIn|thoughtFor)$/.test(name) ? 7_200_000 : "NAME";
  return speak(...((given[name] ?? [number]) as never[]));
}

describe("the texts", () => {
  it("are there in five languages", () => {
    expect(Object.keys(LANGUAGES).sort()).toEqual(["ar", "de", "en", "es", "ja"]);
  });

  it.each(Object.keys(LANGUAGES))("are all there, and name no product: %s", (language) => {
    const all = texts(stringsIn(language));
    expect([...all.keys()].sort()).toEqual([...texts(ENGLISH).keys()].sort());
    expect(Object.keys(stringsIn(language).errors).sort()).toEqual(Object.keys(ENGLISH.errors).sort());
    for (const [name, text] of all) {
      expect(text.trim(), name).not.toBe("");
      expect(text, name).not.toMatch(/[Ee]ven[Ff]low|undefined|NaN/);
    }
  });

  it.each(OTHERS)("are translated: %s", (language) => {
    const same = [...texts(stringsIn(language))].filter(([name, text]) => texts(ENGLISH).get(name) === text);
    expect(same.map(([name]) => name).filter((name) => !IN_COMMON.includes(name))).toEqual([]);
  });

  it.each(Object.keys(LANGUAGES))("say the numbers and names that are put in: %s", (language) => {
    const strings = stringsIn(language);
    expect(strings.queued(3, 40)).toMatch(/3.*40/);
    expect(strings.queued(3, null)).not.toMatch(/40|null/);
    expect(strings.queued(1, null)).not.toBe(strings.queued(3, null));
    expect(strings.versionOf(2, 7)).toMatch(/2.*7/);
    expect(strings.took(1_250)).toMatch(/^1[.,]3/);
    expect(strings.tokens(17)).toContain("17");
    expect(strings.thoughtFor(5)).toContain("5");
    expect(strings.tryAgainIn(5 * 60_000)).toContain("5");
    expect(strings.budgetBeginsOn(MOMENT)).toContain("1");
    const { usingTool, resultOfTool, codeIn, copyCodeIn, footnote, loadImageFrom } = strings;
    for (const speak of [usingTool, resultOfTool, codeIn, copyCodeIn, footnote, loadImageFrom])
      expect(speak("search")).toContain("search");
  });
});

describe("the language", () => {
  it.each([
    ["de-AT", "Fragen"],
    ["ja", "質問する"],
    ["AR", "اسأل"],
    ["fa", "Ask"],
    ["", "Ask"],
  ])("is that of the tag, or English: %j", (tag, ask) => {
    expect(stringsIn(tag).ask).toBe(ask);
  });

  it("is that of what the element is in, through shadows up to the document", () => {
    document.body.innerHTML = '<main lang="es"><div></div></main><aside></aside>';
    const root = document.querySelector("div")?.attachShadow({ mode: "open" });
    const inside = root?.appendChild(document.createElement("p"));
    expect(languageAround(inside ?? document.body)).toBe("es");
    const aside = document.querySelector("aside") ?? document.body;
    expect(languageAround(aside)).toBe("");
    document.documentElement.lang = "ja";
    expect(languageAround(aside)).toBe("ja");
    document.documentElement.removeAttribute("lang");
  });

  it("gives way to the page's own texts, one by one", () => {
    const strings = stringsIn("de", { ask: "Los", errors: { busy: ["Voll.", "Später."] } });
    expect([strings.ask, strings.stop, strings.errors.busy[0]]).toEqual(["Los", "Anhalten", "Voll."]);
    expect(strings.errors.gone).toEqual(stringsIn("de").errors.gone);
  });
});

describe("the element", () => {
  let scene: ChatScene;

  beforeEach(() => {
    scene = new ChatScene();
  });

  it("speaks the language of its attribute, also when that changes", () => {
    scene.chat.lang = "de";
    expect([scene.find("ask", HTMLButtonElement).textContent, scene.status]).toEqual(["Fragen", "Verbindet…"]);
    expect(scene.box.placeholder).toBe("Stelle eine Frage");
    scene.chat.lang = "en";
    expect([scene.find("ask", HTMLButtonElement).textContent, scene.status]).toEqual(["Ask", "Connecting…"]);
  });

  it("is written from right to left in Arabic, else as the page is", () => {
    const frame = scene.chat.shadowRoot?.querySelector<HTMLElement>(".frame");
    expect(frame?.dir).toBe("");
    scene.chat.lang = "ar";
    expect(frame?.dir).toBe("rtl");
  });

  it("has all of a conversation in that language", async () => {
    scene.chat.lang = "es";
    scene.chat.strings = { retry: "¡Otra vez!" };
    const client = new ScriptedClient();
    scene.chat.client = client;
    scene.chat.ask("¿Y bien?");
    client.last.accept();
    client.last.say("```js\nx\n```\n");
    client.last.complete("length");
    await settle();
    expect(scene.conversation.at(-1)).toMatch(/^La respuesta se cortó en su límite de longitud · 0,\d s$/);
    expect(scene.buttons("¡Otra vez!")).toHaveLength(1);
    expect(scene.buttons("Copiar")).toHaveLength(2);
    expect(scene.spoken).toEqual(["Código, js.", "La respuesta se cortó en su límite de longitud."]);
  });
});

describe("no text is left outside of the strings", () => {
  const sources = readdirSync(ELEMENT, { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.(ts|css)$/.test(name) && !name.startsWith("strings"),
  );
  /** Names of keys and events, and what is said to developers. */
  const NOT_SHOWN = /^(Enter|Escape|DOMContentLoaded|Evenflow: .*)$/s;

  /** What a text is given to that is shown or spoken. */
  const SET =
    /(?:\b(?:text|title|placeholder|alt|content):|(?:textContent|placeholder|title) =|"aria-label"[:,])\s*("[^"]*"|`[^`]*`)/g;

  it.each(sources)("%s", (name) => {
    const code = readFileSync(join(ELEMENT, name), "utf8")
      .replaceAll(/\/\*.*?\*\/|(?<!:)\/\/.*$/gms, "")
      .replaceAll(/^.*\bError\(.*$/gm, "");
    const literals = [...code.matchAll(/"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)].map(
      ([, one, other]) => one ?? other,
    );
    const shown = literals.filter((text = "") => /^\P{L}*\p{Lu}\p{Ll}+/u.test(text) && !NOT_SHOWN.test(text));
    const set = [...code.matchAll(SET)].map(([, literal = ""]) => literal.replaceAll(/\$\{[^}]*\}/g, ""));
    expect([...(name.endsWith(".ts") ? shown : []), ...set.filter((text) => /\p{L}/u.test(text))]).toEqual([]);
  });
});
