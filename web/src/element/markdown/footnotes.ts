import { made } from "../made.ts";
import type { Strings } from "../strings.ts";
import type { Work } from "./work.ts";

const REFERENCE = "[data-footnote]";
const DEFINITION = "[data-definition]";
const REFERENCES_PER_STEP = 200;
const BLOCKS_PER_STEP = 20;

/** Turns a reference to a footnote into a button: the page's links can't find it in the element's shadow root. */
export function dressReference(reference: HTMLElement, { footnote }: Strings): void {
  const label = reference.textContent ?? "";
  reference.replaceChildren(smallButton("footnote-reference", label, footnote(label)));
}

/** Completes a footnote: its label before the text, and a button after it that leads back. */
export function dressDefinition(definition: HTMLElement, { footnote, backToText }: Strings): void {
  const label = definition.dataset.definition ?? "";
  definition.className = "footnote";
  definition.tabIndex = -1;
  definition.setAttribute("role", "doc-footnote");
  definition.setAttribute("aria-label", footnote(label));
  definition.replaceChildren(
    made("span", { class: "footnote-label", text: label }),
    made("div", { class: "footnote-text" }, ...definition.childNodes),
    smallButton("footnote-back", "↩", backToText),
  );
}

/** Scrolls to the target of a button in `answer`: a footnote, or the first reference to it. */
export function followFootnote(answer: HTMLElement, target: HTMLElement): void {
  const isReference = target.classList.contains("footnote-reference");
  if (!isReference && !target.classList.contains("footnote-back")) return;
  const from = labelOf(target.closest<HTMLElement>(isReference ? REFERENCE : DEFINITION));
  const candidates = answer.querySelectorAll<HTMLElement>(isReference ? DEFINITION : REFERENCE);
  const place = [...candidates].find((candidate) => labelOf(candidate) === from);
  (isReference ? place : place?.querySelector("button"))?.focus();
}

/** Shows references without a footnote as text. */
export function* undressReferences(answer: HTMLElement): Work {
  const defined = new Set([...answer.querySelectorAll<HTMLElement>(DEFINITION)].map(labelOf));
  const changed = new Set<ParentNode | null>();
  for (const [position, reference] of answer.querySelectorAll<HTMLElement>(REFERENCE).entries()) {
    if (position % REFERENCES_PER_STEP === REFERENCES_PER_STEP - 1) yield;
    if (defined.has(labelOf(reference))) continue;
    changed.add(reference.parentNode);
    reference.replaceWith(`[^${reference.textContent}]`);
  }
  for (const [position, block] of [...changed].entries()) {
    if (position % BLOCKS_PER_STEP === BLOCKS_PER_STEP - 1) yield;
    block?.normalize();
  }
}

function labelOf(element: HTMLElement | null): string | undefined {
  return (element?.dataset.footnote ?? element?.dataset.definition)?.toLowerCase();
}

function smallButton(className: string, text: string, label: string): HTMLButtonElement {
  const element = made("button", { class: className, text, attributes: { "aria-label": label } });
  element.type = "button";
  return element;
}
