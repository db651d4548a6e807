import { FRAMES, type FrameType, type ServerFrame } from "./frames.ts";
import { type Check, shape, string } from "./shape.ts";

/** A frame of the server; `garbled` stands for one that could not be read, and may have been anything. */
export type Arrival = ServerFrame | { readonly type: "garbled" };

const typed = shape({ type: string });

/** Reads one frame; `null` for a type that this client does not know, which is to be ignored. */
export function readFrame(data: unknown): Arrival | null {
  try {
    const value: unknown = JSON.parse(string(data, "frame"));
    const { type } = typed(value, "frame");
    const read = FRAMES[type as FrameType] as Check<object> | undefined;
    return read ? ({ type, ...read(value, type) } as ServerFrame) : null;
  } catch {
    return { type: "garbled" };
  }
}
