import type { AnswerEvent, AnswerPart, ToolCall } from "./api.ts";
import type { Content } from "./content.ts";
import { optional, shape, string } from "./shape.ts";

/** How an answer grows. */
export type Growth = Extract<AnswerEvent, { type: "delta" | "part" }>;

const source = shape({ url: optional(string, ""), title: optional(string, "") });

/** What `content`, that of the indexes `from` to `index`, does to an answer of these parts; undefined where nothing is to see. */
export function growthBy(
  parts: readonly AnswerPart[],
  content: Content,
  from: number,
  index: number,
): Growth | undefined {
  const { kind, text, choice } = content;
  if (choice > 0) return undefined;
  if (kind === "text") return { type: "delta", text, from, index };
  const found = placed(parts, content);
  return found && { type: "part", ...found, from, index };
}

/** The parts of an answer after `event`. */
export function after(parts: readonly AnswerPart[], event: AnswerEvent | undefined): readonly AnswerPart[] {
  switch (event?.type) {
    case "delta": {
      const { position, part } = joined(parts, "text", event.text);
      return part.text === "" ? parts : withPart(parts, position, part);
    }
    case "part":
      return withPart(parts, event.position, event.part);
    case "restarted":
      return event.parts;
    default:
      return parts;
  }
}

type Placed<P = AnswerPart> = { readonly position: number; readonly part: P };

function placed(parts: readonly AnswerPart[], content: Content): Placed | undefined {
  const { kind, text, call, id, name } = content;
  switch (kind) {
    case "reasoning":
    case "refusal":
      return joined(parts, kind, text);
    case "call":
      return { position: parts.length, part: { type: "tool", call, id, name, arguments: "", isComplete: false } };
    case "arguments":
      return changed(
        parts,
        (tool) => tool.call === call,
        (tool) => ({ ...tool, arguments: tool.arguments + text }),
      );
    case "call_end":
      return changed(
        parts,
        (tool) => tool.call === call,
        (tool) => ({ ...tool, isComplete: true }),
      );
    case "result":
      return changed(
        parts,
        (tool) => tool.id === id,
        (tool) => ({ ...tool, isComplete: true, result: text }),
      );
    case "data":
      return { position: parts.length, part: dataPart(content) };
    default:
      return undefined;
  }
}

/** The parts with `part` at `position`, replacing the one there or appended. */
function withPart(parts: readonly AnswerPart[], position: number, part: AnswerPart): readonly AnswerPart[] {
  return [...parts.slice(0, position), part, ...parts.slice(position + 1)];
}

/** Text of a kind that goes on where the last part is of that kind. */
function joined<K extends "text" | "reasoning" | "refusal">(
  parts: readonly AnswerPart[],
  type: K,
  text: string,
): Placed<{ readonly type: K; readonly text: string }> {
  const last = parts.slice(-1)[0];
  if (last?.type !== type) return { position: parts.length, part: { type, text } };
  return { position: parts.length - 1, part: { type, text: (last as { readonly text: string }).text + text } };
}

/** The last call that is the one looked for, changed. */
function changed(
  parts: readonly AnswerPart[],
  isIt: (tool: ToolCall) => boolean,
  change: (tool: ToolCall) => ToolCall,
): Placed | undefined {
  const position = parts.map((part) => part.type === "tool" && isIt(part)).lastIndexOf(true);
  return position < 0 ? undefined : { position, part: change(parts[position] as ToolCall) };
}

function dataPart({ name, value }: Content): AnswerPart {
  try {
    const { url, title } = source(name === "source" && value, name);
    if (url || title) return { type: "source", url, title };
  } catch {
    // The application's own, by whatever name.
  }
  return { type: "data", name, value };
}
