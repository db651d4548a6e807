// The element as the server serves it, /evenflow-chat.js, and as the package has it: one module with its own client.
import { ConnectedChat } from "./connected-chat.ts";

// A server that renders the page imports this too, and has no elements.
if (globalThis.customElements?.get("evenflow-chat") === undefined)
  globalThis.customElements?.define("evenflow-chat", ConnectedChat);
