// `<evenflow-chat>` in TSX for React 19: functions and objects become properties, `on…` listens to that event.
// @ts-ignore: without React there is no JSX of its
import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { ChatClient } from "./chat-client.ts";
import type { EvenflowChat, EvenflowChatEvents } from "./evenflow-chat.ts";
import type { DrawDiagram } from "./extras/diagrams.ts";
import type { SomeStrings } from "./strings.ts";

interface EvenflowChatAttributes {
  url?: string | undefined;
  "session-url"?: string | undefined;
  placeholder?: string | undefined;
  theme?: "light" | "dark" | "auto" | undefined;
  maths?: "on" | "off" | undefined;
  "code-colours"?: "on" | "off" | undefined;
  images?: string | undefined;
  diagrams?: DrawDiagram | undefined;
  client?: ChatClient | undefined;
  strings?: SomeStrings | undefined;
  "onevenflow-ask"?: ((event: EvenflowChatEvents["evenflow-ask"]) => void) | undefined;
  "onevenflow-event"?: ((event: EvenflowChatEvents["evenflow-event"]) => void) | undefined;
  "onevenflow-end"?: ((event: EvenflowChatEvents["evenflow-end"]) => void) | undefined;
}

// @ts-ignore: the same
declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "evenflow-chat": DetailedHTMLProps<HTMLAttributes<EvenflowChat>, EvenflowChat> & EvenflowChatAttributes;
    }
  }
}
