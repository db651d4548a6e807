/** One server-sent event. `id` is empty where it has none. */
export interface ServerEvent {
  id: string;
  data: string;
}

/** The events of a body, to its end. Comments and every other field are left out. */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void, void> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  let event: ServerEvent = { id: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        if (line.startsWith("data: ")) event.data = line.slice(6);
        if (line !== "" || event.data === "") continue;
        yield event;
        event = { id: "", data: "" };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
