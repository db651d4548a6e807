import { vi } from "vitest";

/** A page as the client sees it: whether it is looked at, whether the browser has a network, and what happens to it. */
export class FakePage {
  readonly #window = new EventTarget();
  readonly #document = Object.assign(new EventTarget(), { hidden: false });
  readonly #navigator = { onLine: true, connection: new EventTarget() };

  constructor() {
    vi.stubGlobal("document", this.#document);
    vi.stubGlobal("navigator", this.#navigator);
    vi.stubGlobal("addEventListener", this.#window.addEventListener.bind(this.#window));
  }

  show(isSeen: boolean): void {
    this.#document.hidden = !isSeen;
    this.#document.dispatchEvent(new Event("visibilitychange"));
  }

  connect(isOnline: boolean): void {
    this.#navigator.onLine = isOnline;
    this.#window.dispatchEvent(new Event(isOnline ? "online" : "offline"));
  }

  /** The window has `focus`, the page is shown again (`pageshow`), or the network is another one (`change`). */
  fire(type: string): void {
    (type === "change" ? this.#navigator.connection : this.#window).dispatchEvent(new Event(type));
  }

  /** What the browser believes, without a word. */
  set isOnline(isOnline: boolean) {
    this.#navigator.onLine = isOnline;
  }
}
