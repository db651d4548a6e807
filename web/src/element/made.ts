/** The properties of a new element. */
export interface Given {
  readonly class?: string;
  readonly text?: string;
  readonly testId?: string;
  readonly hidden?: boolean;
  readonly attributes?: Readonly<Record<string, string>>;
}

/** Makes an element with these children. */
export function made<N extends keyof HTMLElementTagNameMap>(
  name: N,
  given: Given = {},
  ...children: Node[]
): HTMLElementTagNameMap[N] {
  const element = document.createElement(name);
  if (given.class !== undefined) element.className = given.class;
  if (given.text !== undefined) element.textContent = given.text;
  if (given.testId !== undefined) element.dataset.testid = given.testId;
  if (given.hidden === true) element.hidden = true;
  for (const [attribute, value] of Object.entries(given.attributes ?? {})) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

/** A button that doesn't submit a form. */
export function button(given: Given, onClick: () => void): HTMLButtonElement {
  const element = made("button", given);
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
}
