import { connect } from "../client/index.ts";
import { Announcer } from "./announcer.ts";
import { Chat } from "./chat.ts";
import { ConversationView } from "./conversation-view.ts";
import { optionsFromAddress } from "./page-options.ts";
import { requiredElement } from "./required-element.ts";
import { StatsView } from "./stats-view.ts";
import { StatusView } from "./status-view.ts";

const client = connect(optionsFromAddress(new URL(location.href)));
const chat = new Chat(client, {
  announcer: new Announcer(requiredElement("#announcements", HTMLElement)),
  conversation: new ConversationView(requiredElement("#conversation", HTMLElement)),
  stats: new StatsView(),
  status: new StatusView(requiredElement('[data-testid="status"]', HTMLElement)),
});
chat.watch();
