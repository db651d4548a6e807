// A page with AI SDK's chat for React. It stores nothing: the server has the conversation. With `transport=evenflow` in
// its address it has Evenflow's transport, else AI SDK's own.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { EvenflowChatTransport } from "../../../web/src/ai-sdk/chat-transport.ts";

const { id, api, transport } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const Transport = transport === "evenflow" ? EvenflowChatTransport : DefaultChatTransport;
const { messages } = await (await fetch(`${api}/${id}`)).json();

function Chat() {
  const chat = useChat({
    id,
    messages,
    resume: true,
    transport: new Transport({ api }),
  });
  const stop = async () => {
    await fetch(`${api}/${id}/stop`, { method: "POST", headers: { "content-type": "application/json" } });
    await chat.stop();
  };
  return h(
    "main",
    { "data-status": chat.status },
    h("form", {
      onSubmit: (event) => {
        event.preventDefault();
        chat.sendMessage({ text: new FormData(event.target).get("text") });
      },
    }, h("input", { name: "text", "aria-label": "Message" }), h("button", {}, "Send")),
    h("button", { onClick: stop }, "Stop"),
    h("p", { role: "alert" }, chat.error?.message ?? ""),
    chat.messages.map((message) =>
      h("article", { key: message.id, className: message.role, "data-id": message.id },
        message.parts.map((part) => (part.type === "text" ? part.text : "")).join("")),
    ),
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
