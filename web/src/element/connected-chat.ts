import { connect } from "../client/index.ts";
import type { ChatClient } from "./chat-client.ts";
import { EvenflowChat } from "./evenflow-chat.ts";
import { places, storageOf, takePlace } from "./storage-place.ts";

/**
 * An {@link EvenflowChat} that connects by itself, unless the page's scripts set a client. It connects to the server in
 * its attribute `url`, by default the folder of this module, and opens sessions at `session-url`, if set. When it is
 * removed from the page, it closes that connection.
 */
export class ConnectedChat extends EvenflowChat {
  /** The client that the element made itself. */
  #own: ReturnType<typeof connect> | undefined;

  override get client(): ChatClient | undefined {
    return super.client;
  }

  override set client(client: ChatClient) {
    super.client = client;
    if (client === this.#own) return;
    this.#own?.close();
    this.#own = undefined;
  }

  /** The element's own key suffix in the tab's storage. */
  #place: string | undefined;

  override async connectedCallback(): Promise<void> {
    super.connectedCallback();
    this.#takeEarly("diagrams");
    this.#takeEarly("client");
    this.#takeEarly("strings");
    await scriptsHaveRun();
    const isServed = this.client !== this.#own || (this.#own !== undefined && this.#own.connection !== "closed");
    if (!this.isConnected || isServed) return;
    const url = super.serverUrl ?? folderOf(import.meta.url);
    const sessionUrl = this.getAttribute("session-url") ?? undefined;
    this.#place ??= takePlace(this.id);
    this.#own = connect({ url, sessionUrl, storage: storageOf(this.#place) });
    this.client = this.#own;
  }

  override async disconnectedCallback(): Promise<void> {
    await null; // a move within the page inserts it again at once
    if (this.isConnected) return;
    super.disconnectedCallback();
    this.#own?.close();
    if (this.#place !== undefined) places.delete(this.#place);
    this.#place = undefined;
  }

  protected override get serverUrl(): string | undefined {
    return super.serverUrl ?? (this.#own === undefined ? undefined : folderOf(import.meta.url));
  }

  /** Applies a property that the page set before this module was loaded: a plain property would hide the accessor. */
  #takeEarly(name: "client" | "diagrams" | "strings"): void {
    const early = Object.getOwnPropertyDescriptor(this, name);
    if (early === undefined) return;
    Reflect.deleteProperty(this, name);
    this[name] = early.value;
  }
}

/** The folder of a file, without a slash at its end; for an origin, the origin. */
export function folderOf(url: string): string {
  return url.replace(/(?<!\/)\/[^/?#]*([?#].*)?$/, "");
}

/** Until this resolves a page may still set the element's client. */
async function scriptsHaveRun(): Promise<void> {
  if (document.readyState === "complete" || contentWasLoaded()) return;
  await new Promise((resolve) => {
    document.addEventListener("DOMContentLoaded", resolve);
    addEventListener("load", resolve); // in case DOMContentLoaded was missed
  });
}

/** Whether `DOMContentLoaded` was fired. The `load` after it waits for every image, and may never come. */
function contentWasLoaded(): boolean {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return navigation !== undefined && navigation.domContentLoadedEventStart > 0;
}
