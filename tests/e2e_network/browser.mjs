// A real browser whose pages are driven by lines of JSON on standard input: {id, do, page, …}. Each is answered by a line {id, value} or
// {id, error}. Arguments: `chrome` or `firefox`, the path of the browser, a folder for its profile.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const puppeteer = require("puppeteer-core");
const [, , browserName, executablePath, userDataDir] = process.argv;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync"];

const browser = await puppeteer.launch({
  browser: browserName,
  executablePath,
  userDataDir,
  headless: true,
  defaultViewport: null,
  args: browserName === "chrome" ? FLAGS : [],
  protocolTimeout: 0,
});
const pages = new Map();

const COMMANDS = {
  /** Opens a window of its own, with a storage of its own. */
  async open({ page: name, url }) {
    const context = await browser.createBrowserContext();
    const page = await context.newPage({ type: "window" });
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    pages.set(name, { context, page, errors });
    await page.goto(url, { timeout: 60_000 });
  },
  evaluate: ({ page, code }) => pages.get(page).page.evaluate(code),
  errors: ({ page }) => pages.get(page).errors,
  /** Another tab hides the page, and the browser stops its scripts. */
  async freeze({ page: name }) {
    const opened = pages.get(name);
    opened.other = await opened.context.newPage();
    await opened.other.bringToFront();
    opened.devtools = await opened.page.createCDPSession();
    await opened.devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  },
  async thaw({ page: name }) {
    const { other, devtools, page } = pages.get(name);
    await devtools.send("Page.setWebLifecycleState", { state: "active" });
    await page.bringToFront();
    await other.close();
  },
  async close({ page: name }) {
    const { context } = pages.get(name);
    pages.delete(name);
    await context.close();
  },
};

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
say({ id: 0, value: await browser.version() });
const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const { id, do: command, ...given } = JSON.parse(line);
  try {
    say({ id, value: (await COMMANDS[command](given)) ?? null });
  } catch (error) {
    say({ id, error: `${command} ${given.page}: ${error}` });
  }
});
lines.on("close", async () => {
  await browser.close();
  process.exit(0);
});
