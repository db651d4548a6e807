/** The code of a key that an input method has handled. */
const TAKEN = 229;

/** Whether a key is for an input method, such as the Enter that selects a word. Safari ends the composition first. */
export function isOfComposition({ isComposing, keyCode }: KeyboardEvent): boolean {
  return isComposing || keyCode === TAKEN;
}
