// The browser's own EventSource and WebSocket, as somebody would write it who has read docs/protocol.md and nothing else.
const seen = { text: "", ids: [], pieces: [], opened: 0, errors: 0, end: null, state: null };

async function send(token, text, cookie) {
  const answer = await fetch("chat/message", {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: JSON.stringify({ message_id: "m1", previous_message_id: null, payload: { text }, cookie }),
  });
  return (await answer.json()).response_id;
}

async function session() {
  return (await fetch("session", { method: "POST" })).json();
}

function take(frame) {
  if (frame.type === "chat.response.delta") {
    seen.text += frame.delta;
    seen.pieces.push([frame.from ?? frame.index, frame.index, frame.delta]);
  } else if (frame.type === "chat.response.restarted") {
    seen.pieces = seen.pieces.filter(([, last]) => last <= frame.from_index);
    seen.text = seen.pieces.map(([, , text]) => text).join("");
    if (frame.index >= 0) seen.pieces.push([frame.index, frame.index, ""]);
  } else if (frame.type === "chat.response.completed") {
    seen.end = frame;
  }
}

function listen(url, options) {
  const source = new EventSource(url, options);
  source.onopen = () => { seen.opened += 1; };
  source.onerror = () => { seen.errors += 1; seen.state = source.readyState; };
  for (const kind of ["chat.response.delta", "chat.response.restarted", "chat.response.completed"]) {
    source.addEventListener(kind, (event) => { seen.ids.push(event.lastEventId); take(JSON.parse(event.data)); });
  }
}

async function overEventSource(text, cookie) {
  const { token } = await session();
  listen(`chat/message/${await send(token, text, cookie)}/events`);
}

async function overWebSocket(text) {
  const { token, ws_url } = await session();
  const socket = new WebSocket(ws_url, ["evenflow.v1", `bearer.${token}`]);
  socket.onopen = () => {
    seen.opened += 1;
    socket.send(JSON.stringify({ type: "chat.message", message_id: "m1", payload: { text } }));
  };
  socket.onmessage = (event) => {
    take(JSON.parse(event.data));
    if (seen.end) socket.close(1000);
  };
  socket.onclose = (event) => { seen.state = [event.code, event.wasClean, socket.protocol]; };
}
