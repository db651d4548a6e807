import controls from "./styles/controls.css?inline";
import conversation from "./styles/conversation.css?inline";
import frame from "./styles/frame.css?inline";
import markdown from "./styles/markdown.css?inline";
import parts from "./styles/parts.css?inline";
import question from "./styles/question.css?inline";
import theme from "./styles/theme.css?inline";

/** Selects one of two colours without `light-dark()`: the page's `color-scheme` is unknown then, but `theme` isn't. */
const BY_THEME = `
  :host { --light: initial; --dark: ; }
  :host([theme="dark"]) { --light: ; --dark: initial; }
  @media (prefers-color-scheme: dark) { :host([theme="auto"]) { --light: ; --dark: initial; } }
`;

let shared: CSSStyleSheet | undefined;

/** The style of all elements: a constructed sheet, which a policy without `unsafe-inline` allows. */
export function styleSheet(): CSSStyleSheet {
  if (shared === undefined) {
    shared = new CSSStyleSheet();
    const style = [theme, frame, conversation, question, parts, markdown, controls].join("\n");
    shared.replaceSync(knowsLightDark() ? style : withoutLightDark(style));
  }
  return shared;
}

/** Whether the browser has `light-dark()`: Chrome from 123, Firefox from 120, Safari from 17.5. */
function knowsLightDark(): boolean {
  return CSS.supports("color", "light-dark(red, red)");
}

function withoutLightDark(style: string): string {
  return BY_THEME + style.replaceAll(/light-dark\((#\w+), (#\w+)\)/g, "var(--light, $1) var(--dark, $2)");
}
