// The element as the server serves it, /evenflow-chat.js: one module, with a client of its own.
import { ConnectedChat } from "./connected-chat.ts";

customElements.define("evenflow-chat", ConnectedChat);
