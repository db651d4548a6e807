import { connect } from "../client/index.ts";
import { EvenflowChat } from "../element/evenflow-chat.ts";
import { DeliveryView } from "./delivery-view.ts";
import { optionsFromAddress } from "./page-options.ts";
import { requiredElement } from "./required-element.ts";
import { StatsView } from "./stats-view.ts";
import { Suggestions } from "./suggestions.ts";

customElements.define("evenflow-chat", EvenflowChat);
const chat = requiredElement("evenflow-chat", EvenflowChat);
const options = optionsFromAddress(new URL(location.href));
const client = connect(options);
const stats = new StatsView();
const suggestions = new Suggestions(requiredElement("#suggestions", HTMLElement), (question) => chat.ask(question));
const delivery = new DeliveryView(stats);

chat.addEventListener("evenflow-ask", ({ detail }) => {
  suggestions.remove(detail.question);
  suggestions.setVisible(false);
  delivery.begin();
});
chat.addEventListener("evenflow-event", ({ detail }) => delivery.show(detail));
chat.addEventListener("evenflow-end", () => suggestions.setVisible(true));
client.on("transport", (transport) => {
  // Of an answer its delivery tells: by what is tried nothing may come.
  if (!chat.isBusy) stats.showTransport(transport);
});
client.on("connection", () => suggestions.offer(client.suggestions));
suggestions.offer(client.suggestions);
chat.setAttribute("url", options.url);
chat.client = client;
chat.focus();
