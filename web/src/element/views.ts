import type { Announcer } from "./announcer.ts";
import type { ConversationView } from "./conversation-view.ts";
import type { StatusView } from "./status-view.ts";

/** The parts of the element that show something of an answer. */
export interface Views {
  readonly announcer: Announcer;
  readonly conversation: ConversationView;
  readonly status: StatusView;
}
