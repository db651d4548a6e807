/** A paragraph longer than this is left as it is: to look it through with every frame would cost too much. */
const LONGEST = 2_000;
const CODE_SPAN = /(?<!`)(`{1,2})(?!`)[^`]+\1(?!`)/g;
const OPEN_CODE = /(?<!`)(`{1,2})[^`]+$/;
const OPEN_STRONG = /\*\*[^\s*](?:[^*]|\*(?!\*))*$/;

/**
 * Closes the code and the strong text that are open at the end of `source`, so that a reader sees them as what they will be
 * rather than their marks; a mark that has only begun is left out. It never changes what is rendered in the end.
 */
export function withMarksClosed(source: string): string {
  // Behind a blank and not at the beginning of a line, where it may be an item's.
  const begun = source.replace(/(?<=\S[ (])\*{1,2}$/, "");
  const paragraph = begun.slice(begun.lastIndexOf("\n\n") + 1);
  if (paragraph.length > LONGEST) return begun;
  const outside = paragraph.replace(CODE_SPAN, "");
  const code = OPEN_CODE.exec(outside)?.[1];
  if (code !== undefined) return begun.trimEnd() + code;
  const isStrong = (outside.match(/\*\*/g)?.length ?? 0) % 2 === 1 && OPEN_STRONG.test(outside);
  return isStrong ? `${begun.replace(/\*$/, "").trimEnd()}**` : begun;
}
