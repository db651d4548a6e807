/** One server-sent event, `id` empty where it has none; or a comment. */
export type ServerEvent = { readonly id: string; readonly data: string } | { readonly comment: string };

/** The events of a body, to its end, or until `signal` is aborted. Every other field is left out. */
export async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent, void, void> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  const end = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", end);
  let rest = "";
  let event = { id: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith(":")) yield { comment: line.slice(1).trim() };
        if (line.startsWith("id: ")) event.id = line.slice(4);
        if (line.startsWith("data: ")) event.data = line.slice(6);
        if (line !== "" || event.data === "") continue;
        yield event;
        event = { id: "", data: "" };
      }
    }
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
