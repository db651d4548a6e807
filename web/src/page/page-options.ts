import type { ConnectOptions } from "../client/index.ts";

/**
 * The client's options from the page's address: the server is where the page comes from, also below a path;
 * `?transport=poll` and `?transport=sse`.
 */
export function optionsFromAddress(address: URL): ConnectOptions & { readonly url: string } {
  const url = new URL(".", address).href.slice(0, -1);
  switch (address.searchParams.get("transport")) {
    case "poll":
      return { url, transports: ["long-poll"] };
    case "sse":
      return { url, transports: ["sse", "long-poll"] };
    default:
      return { url };
  }
}
