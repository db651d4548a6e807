import type { Announcer } from "./announcer.ts";
import type { ConversationView } from "./conversation-view.ts";
import type { StatusView } from "./status-view.ts";

/** The views that show an answer. */
export interface Views {
  readonly announcer: Announcer;
  readonly conversation: ConversationView;
  readonly status: StatusView;
}
