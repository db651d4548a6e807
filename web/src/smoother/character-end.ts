const JOINER = "\u200d";
/** What belongs to the character before it: accents, variation selectors, skin tones, joiners. */
const BELONGS_TO_PREVIOUS = /^[\p{M}\p{Emoji_Modifier}\u200d]/u;

/** The least position from `position` on at which `text` can be cut without tearing a character that a person sees as one. */
export function characterEnd(text: string, position: number): number {
  let end = position;
  while (end > 0 && end < text.length && isInside(text, end)) end += 1;
  return Math.min(end, text.length);
}

function isInside(text: string, position: number): boolean {
  const splitsPair = isHighSurrogate(text.charCodeAt(position - 1)) && isLowSurrogate(text.charCodeAt(position));
  return splitsPair || text[position - 1] === JOINER || BELONGS_TO_PREVIOUS.test(text.slice(position, position + 2));
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
