import { ProtocolError } from "./errors.ts";
import { FRAMES, type FrameType, type ServerFrame } from "./frames.ts";
import { shape, string } from "./shape.ts";

/** A frame of the server; `garbled` stands for one that could not be read, and may have been anything. */
export type Arrival = ServerFrame | { readonly type: "garbled" };

const typed = shape({ type: string });

/** Reads one frame; `null` for a type that this client does not know, which is to be ignored. */
export function readFrame(data: unknown): Arrival | null {
  try {
    const value: unknown = JSON.parse(string(data, "frame"));
    const { type } = typed(value, "frame");
    return isKnown(type) ? ({ type, ...FRAMES[type](value, type) } as ServerFrame) : null;
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof SyntaxError) return { type: "garbled" };
    throw error;
  }
}

function isKnown(type: string): type is FrameType {
  return Object.hasOwn(FRAMES, type);
}
