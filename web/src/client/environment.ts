import type { ClientStorage } from "./api.ts";

// What the client needs of the browser beyond `fetch`, `WebSocket`, the clock and wake-up.ts.

/** A new identifier that nobody can guess. */
export function newId(): string {
  // `crypto.randomUUID` exists only on secure origins: a phone that opens the page over a plain LAN address has none.
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** What outlives a reload of the page, in this tab; `null` where there is none. */
export function tabStorage(): ClientStorage | null {
  try {
    return (globalThis as { readonly sessionStorage?: ClientStorage }).sessionStorage ?? null;
  } catch {
    // A frame that may keep nothing.
    return null;
  }
}
