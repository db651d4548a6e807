// Takes a real Firefox through the page's main path, by WebDriver BiDi, and says on standard output what it saw: one line of JSON.
// Arguments: Firefox's path, the page's address, a folder for its profile.
import { createRequire } from "node:module";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const puppeteer = require("puppeteer-core");
const [, , executablePath, url, userDataDir] = process.argv;
const PATIENCE_MS = 60_000;
// Leaving takes Firefox along; to be killed would not.
setTimeout(() => process.exit(3), 180_000).unref();

const browser = await puppeteer.launch({ browser: "firefox", executablePath, userDataDir, headless: true });
try {
  const page = await browser.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(url);
  await until(page, () => document.querySelector("evenflow-chat")?.client !== undefined);
  const seen = { version: await browser.version(), focused: await isFocused(page) };

  await ask(page, "#demo tokens=60 gap_ms=20 seed=21");
  await waitFor(page, "streaming");
  await waitFor(page, "done");
  seen.first = await state(page);

  await ask(page, "#demo tokens=3000 gap_ms=30 seed=22");
  await waitForText(page, 200);
  await page.keyboard.press("Escape");
  await waitFor(page, "cancelled");
  seen.stopped = await state(page);

  await ask(page, "#demo tokens=120 gap_ms=40 seed=23");
  await waitForText(page, 100);
  await page.reload();
  await waitFor(page, "done");
  seen.reloaded = await state(page);

  await ask(page, "#demo tokens=30 gap_ms=20 seed=24");
  await waitFor(page, "streaming");
  await waitFor(page, "done");
  seen.last = await state(page);
  console.log(JSON.stringify({ ...seen, errors }));
} finally {
  await browser.close();
}

/** Types into the text box, which has the focus, and presses Enter. */
async function ask(page, question) {
  await page.evaluate(() => document.querySelector("evenflow-chat").focus());
  await page.keyboard.type(question);
  await page.keyboard.press("Enter");
}

/** Waits until something is so in the page. Puppeteer's own `waitForFunction` makes a function of a text there, which the page's policy forbids. */
async function until(page, isSo, ...given) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await page.evaluate(isSo, ...given))) {
    if (Date.now() > deadline) throw new Error(`not so after ${PATIENCE_MS} ms: ${isSo} ${given}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function waitFor(page, wanted) {
  const isSo = (state) => {
    const root = document.querySelector("evenflow-chat")?.shadowRoot;
    return root?.querySelector('[data-testid="status"]').dataset.state === state;
  };
  await until(page, isSo, wanted);
}

async function waitForText(page, length) {
  const isSo = (least) => {
    const chat = document.querySelector("evenflow-chat");
    return chat.isBusy && chat.lastText.length >= least;
  };
  await until(page, isSo, length);
}

async function isFocused(page) {
  return await page.evaluate(() => document.querySelector("evenflow-chat").shadowRoot.activeElement?.id === "question");
}

/** What the page shows of the last answer. */
async function state(page) {
  return await page.evaluate(() => {
    const chat = document.querySelector("evenflow-chat");
    const scroller = chat.shadowRoot.querySelector(".scroller");
    const answers = [...chat.shadowRoot.querySelectorAll('[data-testid="answer"]')];
    return {
      text: chat.lastText,
      shown: answers.at(-1)?.textContent,
      answers: answers.length,
      transport: chat.client.transport,
      toEnd: scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight,
      figure: document.querySelector('[data-testid="transport"]').dataset.value,
      error: chat.shadowRoot.querySelector('[data-testid="error"]')?.textContent ?? null,
    };
  });
}
