/** The code of a key that an input method has taken. */
const TAKEN = 229;

/** Whether a key is an input method's, such as the Enter that chooses a word. In Safari the composition has ended by then. */
export function isOfComposition({ isComposing, keyCode }: KeyboardEvent): boolean {
  return isComposing || keyCode === TAKEN;
}
