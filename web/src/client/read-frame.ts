import { FRAMES, type FrameType, type ServerFrame } from "./frames.ts";
import { type Check, shape, string } from "./shape.ts";

/** A frame of the server; `garbled` stands for one that could not be read, and may have been anything. */
export type Arrival = ServerFrame | { readonly type: "garbled" };

/** The responses of a connection by the numbers that stand for them in compact deltas. */
export type Streams = Map<unknown, string>;

const typed = shape({ type: string });

/** Reads one frame, and keeps in `streams` what it says; `null` for a type that this client does not know, which is to be ignored. */
export function readFrame(data: unknown, streams?: Streams): Arrival | null {
  try {
    const value: unknown = JSON.parse(string(data, "frame"));
    const frame = Array.isArray(value) ? entry(value, streams) : value;
    const { type } = typed(frame, "frame");
    const check = FRAMES[type as FrameType] as Check<object> | undefined;
    if (!check) return null;
    const read = { type, ...check(frame, type) } as ServerFrame;
    if (read.type === "chat.response.start") streams?.set(read.stream, read.response_id);
    return read;
  } catch {
    return { type: "garbled" };
  }
}

/** A delta, or what is no text, as `evenflow.v1.compact` has it. */
function entry([stream, index, content, from]: readonly unknown[], streams?: Streams): object {
  const where = { response_id: streams?.get(stream), index, from };
  return typeof content === "string"
    ? { type: "chat.response.delta", delta: content, ...where }
    : { ...(content as object), type: "chat.response.event", ...where };
}
