// A page with AI SDK's chat for React. It stores nothing: what was said it reads from the server.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";

const { id, api } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const { messages } = await (await fetch(`${api}/${id}`)).json();

function Chat() {
  const chat = useChat({
    id,
    messages,
    resume: true,
    transport: new DefaultChatTransport({ api }),
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
      h("article", { key: message.id, className: message.role },
        message.parts.map((part) => (part.type === "text" ? part.text : "")).join("")),
    ),
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
