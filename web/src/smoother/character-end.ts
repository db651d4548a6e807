/** Firefox has it from 125 on. */
const SEGMENTER = "Segmenter" in Intl ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : undefined;
const CARRIAGE_RETURN = 0x0d;
/** The first character that may belong to the one before it. */
const FIRST_MARK = 0x300;
const JOINER = "\u200d";
/** Without a segmenter: what belongs to the character before it is accents, variation selectors, skin tones, joiners. */
const BELONGS_TO_PREVIOUS = /^[\p{M}\p{Emoji_Modifier}\u200d]/u;
/**
 * What text that still arrives is likely to go on with in the same character: an emoji, half of a flag, a
 * letter of a script that writes its vowels as marks, or a part of a Korean syllable; with the marks that it has already.
 */
const MAY_GO_ON =
  /[\p{Extended_Pictographic}\p{Regional_Indicator}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Thai}\p{Script=Lao}\p{Script=Tibetan}\p{Script=Myanmar}\p{Script=Khmer}\u1100-\u11ff][\p{M}\p{Emoji_Modifier}\u200d]*$/u;
/** More than a character has. */
const LONGEST = 40;

/** The least position from `position` on at which `text` can be cut without tearing a character that a person sees as one. */
export function characterEnd(text: string, position: number): number {
  if (position <= 0 || position >= text.length) return Math.min(position, text.length);
  const [before, behind] = [text.charCodeAt(position - 1), text.charCodeAt(position)];
  if (before < FIRST_MARK && behind < FIRST_MARK && before !== CARRIAGE_RETURN) return position;
  if (SEGMENTER === undefined) return endWithoutSegmenter(text, position);
  const character = SEGMENTER.segment(text).containing(position);
  return character === undefined || character.index === position
    ? position
    : character.index + character.segment.length;
}

/** Where the last character of `text` begins, if what arrives next is likely to belong to it; else the end of `text`. */
export function openCharacter(text: string): number {
  if (isHighSurrogate(text.charCodeAt(text.length - 1))) return openCharacter(text.slice(0, -1));
  if (!MAY_GO_ON.test(text.slice(-LONGEST))) return text.length;
  return SEGMENTER?.segment(text).containing(text.length - 1)?.index ?? text.length;
}

function endWithoutSegmenter(text: string, position: number): number {
  let end = position;
  while (end < text.length && isInside(text, end)) end += 1;
  return end;
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
