import { anything, type Checked, index, optional, shape, string } from "./shape.ts";

/** The fields of what an entry of a log stands for, or several joined, as they are on the wire. */
export const CONTENT = {
  /** `text`, `reasoning`, `refusal`, `call`, `arguments`, `call_end`, `result` or `data`; others may come to be. */
  kind: string,
  text: optional(string, ""),
  /** Of data. */
  value: anything,
  /** Which of several answers it belongs to: of a chat there is one. */
  choice: optional(index, 0),
  /** The number of a call. */
  call: optional(index, 0),
  id: optional(string, ""),
  name: optional(string, ""),
};

const content = shape(CONTENT);
/** The same among text, behind its first `at` characters: code points, not the units of a JavaScript string. */
export const PLACED = { at: index, ...CONTENT };
const placed = shape(PLACED);
type Placed = Checked<typeof placed>;
export type Content = Checked<typeof content>;

/** What a delta stands for. */
export function textContent(text: string): Content {
  return { kind: "text", text, value: undefined, choice: 0, call: 0, id: "", name: "" };
}

/** Whether two neighbours would come joined, but for their kind. */
export function isSamePlace(one: Content, other: Content): boolean {
  return (["kind", "choice", "call", "id", "name"] as const).every((field) => one[field] === other[field]);
}

/** What the parts and the text between them stand for, in order: each part with the text right before it, and last the text behind them. */
export function* inOrder<P extends Placed>(
  text: string,
  parts: readonly P[],
): Generator<{ readonly text: string; readonly part?: P }, void, void> {
  // Where there are none, the text needs no taking apart.
  const characters = parts.length > 0 ? [...text] : [text];
  let taken = 0;
  for (const part of parts) {
    yield { text: characters.slice(taken, part.at).join(""), part };
    taken = part.at;
  }
  yield { text: characters.slice(taken).join("") };
}
