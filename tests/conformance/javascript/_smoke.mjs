import { AbstractChat, DefaultChatTransport } from "ai";
import { HttpAgent } from "@ag-ui/client";
const base = process.argv[2], text = process.argv[3];
const t = new DefaultChatTransport({ api: base + "/api/chat" });
const s = await t.sendMessages({ chatId: "c1", trigger: "submit-message", messages: [{ id: "u1", role: "user", parts: [{ type: "text", text }] }] });
for await (const c of s) console.log(JSON.stringify(c).slice(0, 150));
const a = new HttpAgent({ url: base + "/agui", threadId: "t1" });
a.addMessage({ id: "u1", role: "user", content: text });
console.log(JSON.stringify(await a.runAgent({ runId: "r1" }, { onEvent: ({event}) => console.log(JSON.stringify(event).slice(0,200)) }), null, 1));
