import type { ClientOptions } from "../client/client.ts";

/** The client's options from the page's address: `?transport=poll` and `?protocol=compact`. */
export function optionsFromAddress(address: URL): ClientOptions {
  const parameters = address.searchParams;
  return {
    baseUrl: address.origin,
    transport: parameters.get("transport") === "poll" ? "long-poll" : "auto",
    subprotocol: parameters.get("protocol") === "compact" ? "evenflow.v1.compact" : "evenflow.v1",
  };
}
