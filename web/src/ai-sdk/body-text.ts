/** Decodes a body chunk by chunk, to its end or until `signal` is aborted. */
export async function* textOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  const end = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", end);
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      yield decoder.decode(part.value, { stream: true });
    }
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
