/** The part of a browser's `WebSocket` that the client uses. */
export interface Socket {
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number }) => void): void;
  send(data: string): void;
  close(): void;
}

/** What the client needs from the world around it; tests put their own in its place. */
export interface Environment {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly openSocket: (url: string, protocols: string[]) => Socket;
  /** A number in [0, 1), for backoff. */
  readonly random: () => number;
  /** A new identifier that nobody can guess. */
  readonly newId: () => string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The browser's own environment. */
export const browserEnvironment: Environment = {
  fetch: (url, init) => fetch(url, init),
  openSocket: (url, protocols) => new WebSocket(url, protocols),
  random: () => Math.random(),
  newId,
  now: () => Date.now(),
};

// `crypto.randomUUID` exists only on secure origins: a phone that opens the page over a plain LAN address has none.
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
