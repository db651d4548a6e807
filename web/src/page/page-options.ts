import type { ConnectOptions } from "../client/index.ts";

/** The client's options from the page's address: `?transport=poll` and `?transport=sse`. */
export function optionsFromAddress(address: URL): ConnectOptions {
  const url = address.origin;
  switch (address.searchParams.get("transport")) {
    case "poll":
      return { url, transports: ["long-poll"] };
    case "sse":
      return { url, transports: ["sse", "long-poll"] };
    default:
      return { url };
  }
}
