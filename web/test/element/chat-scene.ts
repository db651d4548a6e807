import { vi } from "vitest";
import { EvenflowChat } from "../../src/element/evenflow-chat.ts";

/** What jsdom doesn't have of a browser. Text is drawn as it arrives, as for who prefers stillness. */
export function completeTheBrowser(): void {
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
  vi.stubGlobal("CSS", { supports: () => true });
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe(): void {}
    },
  );
}

/** An element on a page, and what a reader sees of it. */
export class ChatScene {
  readonly chat: EvenflowChat;

  constructor() {
    completeTheBrowser();
    if (customElements.get("evenflow-chat") === undefined) customElements.define("evenflow-chat", EvenflowChat);
    this.chat = document.createElement("evenflow-chat");
    document.body.replaceChildren(this.chat);
  }

  get box(): HTMLTextAreaElement {
    return this.find("question", HTMLTextAreaElement);
  }

  get status(): string | null {
    return this.find("status", HTMLElement).textContent;
  }

  get isStoppable(): boolean {
    return !this.find("stop", HTMLButtonElement).hidden;
  }

  /** What has the focus in the element, by its name for tests; `undefined` for nothing. */
  get focused(): string | undefined {
    const focused = this.#root.activeElement;
    return focused instanceof HTMLElement ? focused.dataset.testid : undefined;
  }

  /** What is in the conversation, line by line. */
  get conversation(): (string | null)[] {
    const parts = this.#root.querySelectorAll(".question, .parts, .note, .error strong");
    return [...parts].map(({ textContent }) => textContent?.trim() ?? null);
  }

  /** The kinds of what the last answer shows, in order. */
  get order(): string[] {
    return [...this.find("answer", HTMLElement).children].map(({ className }) => className);
  }

  /** What was said to screen readers. */
  get spoken(): (string | null)[] {
    return [...this.#root.querySelectorAll("[aria-live=polite] p")].map(({ textContent }) => textContent);
  }

  /** What `element` shows, by its smallest pieces. */
  lines(element: HTMLElement): string[] {
    const leaves = [...element.querySelectorAll("*")].filter((it) => it.childElementCount === 0);
    return leaves.filter((it) => it.closest("[hidden]") === null).map(({ textContent }) => textContent ?? "");
  }

  find<E extends HTMLElement>(testId: string, type: new () => E): E {
    const found = [...this.#root.querySelectorAll(`[data-testid="${testId}"]`)].at(-1);
    if (!(found instanceof type)) throw new Error(`there is no ${testId}`);
    return found;
  }

  /** What is said beside the answers. */
  get notices(): (string | null)[] {
    return [...this.#root.querySelectorAll(".notice")].map(({ textContent }) => textContent);
  }

  button(text: string, within = ""): HTMLButtonElement | undefined {
    return this.buttons(text, within)[0];
  }

  buttons(text: string, within = ""): HTMLButtonElement[] {
    const buttons = this.#root.querySelectorAll<HTMLButtonElement>(`${within} button`);
    return [...buttons].filter(({ textContent, hidden }) => textContent === text && !hidden);
  }

  type(question: string, key: KeyboardEventInit = { key: "Enter" }): void {
    this.box.value = question;
    this.press(key);
  }

  /** Presses a key in the text box. */
  press(key: KeyboardEventInit): void {
    this.box.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, composed: true, cancelable: true, ...key }));
  }

  get #root(): ShadowRoot {
    if (this.chat.shadowRoot === null) throw new Error("the element has no shadow");
    return this.chat.shadowRoot;
  }
}

/** Lets everything happen that waits for nothing. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}
