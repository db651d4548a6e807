import controls from "./styles/controls.css?inline";
import conversation from "./styles/conversation.css?inline";
import frame from "./styles/frame.css?inline";
import markdown from "./styles/markdown.css?inline";
import parts from "./styles/parts.css?inline";
import question from "./styles/question.css?inline";
import theme from "./styles/theme.css?inline";

let shared: CSSStyleSheet | undefined;

/** The style of all elements: constructed, so that a policy without `unsafe-inline` has nothing against it. */
export function styleSheet(): CSSStyleSheet {
  if (shared === undefined) {
    shared = new CSSStyleSheet();
    shared.replaceSync([theme, frame, conversation, question, parts, markdown, controls].join("\n"));
  }
  return shared;
}
