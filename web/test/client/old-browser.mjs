// `node old-browser.mjs <transport> [fault]`: asks one question with the library as it is published, in a browser that lacks
// what is younger than the oldest ones of library-bundle.mjs, and some of what those have. Prints the answer, or what failed.
const [transport, fault] = process.argv.slice(2);
const FRAMES = [
  { type: "chat.response.delta", response_id: "rsp_1", delta: "Because", index: 0 },
  { type: "chat.response.delta", response_id: "rsp_1", delta: ".", index: 1 },
  { type: "chat.response.completed", response_id: "rsp_1", finish_reason: "stop", last_index: 1, degraded: false },
];
const METADATA = {
  message_id: "m",
  next_index: 2,
  finish_reason: "stop",
  degraded: false,
  usage: null,
  restarted: null,
};
const SESSION = { session_id: "ses_1", token: "t", expires_at: "2099-01-01T00:00:00Z", ws_url: "ws://test/ws" };
const POLL = {
  ...{ response_id: "rsp_1", new_text: "Because.", chunk_index: 1, status: "completed", full_text: "Because." },
  metadata: METADATA,
};
let calls = 0;

globalThis.fetch = async (url, { method = "GET" }) => {
  calls += 1;
  const { pathname } = new URL(url);
  if (pathname === "/session") return answer(201, SESSION);
  if (method === "POST") return answer(202, { response_id: "rsp_1", message_id: "m", status: "queued" });
  if (!pathname.endsWith("/events")) return answer(200, POLL);
  const events = FRAMES.map((frame) => `id: ${frame.index ?? ""}\ndata: ${JSON.stringify(frame)}\n\n`);
  return answer(200, events.join(""), "text/event-stream");
};

globalThis.WebSocket = class extends EventTarget {
  constructor() {
    super();
    this.#says({ type: "session.ready", session_id: "ses_1", limits: { message_bytes: 65_536 } });
  }

  send(text) {
    const { type, message_id } = JSON.parse(text);
    if (type !== "chat.message") return;
    const start = { session_id: "ses_1", response_id: "rsp_1", message_id, status: "streaming", next_index: 0 };
    this.#says({ type: "chat.response.start", ...start, duplicate: false, stream: 0 });
    for (const frame of FRAMES) this.#says(frame);
  }

  close() {}

  #says(frame) {
    setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) })));
  }
};

/** Not a `Response`: Node's own uses what is removed here. */
function answer(status, body, type = "application/json") {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const start = (stream) => {
    stream.enqueue(new TextEncoder().encode(text));
    stream.close();
  };
  const headers = { get: (name) => (name === "Content-Type" ? type : null) };
  return { ok: status < 300, status, headers, text: async () => text, body: new ReadableStream({ start }) };
}

remove(AbortSignal, "any", "timeout");
remove(Array, "fromAsync");
remove(Array.prototype, "at", "findLast", "toReversed", "toSorted", "toSpliced", "with");
remove(String.prototype, "at", "isWellFormed", "toWellFormed");
remove(Object, "groupBy", "hasOwn");
remove(Map, "groupBy");
remove(Promise, "try", "withResolvers");
remove(Set.prototype, "difference", "intersection", "isSubsetOf", "union");
remove(Object.getPrototypeOf(Object.getPrototypeOf([].values())), "drop", "filter", "map", "take", "toArray");
remove(ReadableStream.prototype, Symbol.asyncIterator, "values");
remove(URL, "canParse", "parse");
remove(globalThis, "structuredClone", "BroadcastChannel");
// As scripts of 2008 did.
Object.prototype.foo = "bar";
Object.prototype.each = () => {};
if (fault !== undefined) AbortSignal.any = fails;

const { connect } = await import(new URL("../../lib/index.js", import.meta.url).href);
const client = connect({ url: "http://test", transports: [transport], storage: null });
const asked = client.ask("Why?");
asked.done
  .then(
    ({ text }) => text,
    ({ kind }) => `${kind} after ${calls} calls`,
  )
  .then((found) => {
    process.stdout.write(found);
    process.exit();
  });

function remove(from, ...names) {
  for (const name of names) delete from[name];
}

function fails() {
  throw new TypeError("not in this browser");
}
