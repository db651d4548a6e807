/** The element that `selector` finds in the page's own HTML. Throws when it is missing or of another type. */
export function requiredElement<T extends Element>(selector: string, type: new () => T): T {
  const element = document.querySelector(selector);
  if (!(element instanceof type)) throw new Error(`the page has no ${selector}`);
  return element;
}
