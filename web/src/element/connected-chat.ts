import { connect } from "../client/index.ts";
import type { ChatClient } from "./chat-client.ts";
import { EvenflowChat } from "./evenflow-chat.ts";
import { places, storageOf, takePlace } from "./storage-place.ts";

/**
 * An {@link EvenflowChat} that connects by itself, unless it was given a client by the time the page's scripts have run: to the
 * server in its attribute `url`, by default the folder that this module comes from, with sessions from `session-url`, where that is said. Taken out of the page, it closes that connection.
 */
export class ConnectedChat extends EvenflowChat {
  /** The client that is not the page's. */
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

  /** What the element has of its own in the tab's storage. */
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
    await null; // who moves it puts it back at once
    if (this.isConnected) return;
    super.disconnectedCallback();
    this.#own?.close();
    if (this.#place !== undefined) places.delete(this.#place);
    this.#place = undefined;
  }

  protected override get serverUrl(): string | undefined {
    return super.serverUrl ?? (this.#own === undefined ? undefined : folderOf(import.meta.url));
  }

  /** What a page has set before this module was there is a plain property, which hides the accessor. */
  #takeEarly(name: "client" | "diagrams" | "strings"): void {
    const early = Object.getOwnPropertyDescriptor(this, name);
    if (early === undefined) return;
    Reflect.deleteProperty(this, name);
    this[name] = early.value;
  }
}

/** The folder of a file, without a slash at its end; an origin is its own. */
export function folderOf(url: string): string {
  return url.replace(/(?<!\/)\/[^/?#]*([?#].*)?$/, "");
}

/** Until then a page may still give the element a client. */
async function scriptsHaveRun(): Promise<void> {
  if (document.readyState === "complete" || contentWasLoaded()) return;
  await new Promise((resolve) => {
    document.addEventListener("DOMContentLoaded", resolve);
    addEventListener("load", resolve); // where it isn't known whether the former has been
  });
}

/** Whether `DOMContentLoaded` has been. The `load` after it waits for every image, and may never come. */
function contentWasLoaded(): boolean {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return navigation !== undefined && navigation.domContentLoadedEventStart > 0;
}
