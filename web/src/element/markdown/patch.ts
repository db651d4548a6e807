import type { Work } from "./work.ts";

/** The most children of one node that are patched in one step. */
const CHILDREN_PER_STEP = 100;

/**
 * Makes the children of `parent` after `settled` (null: all of them) equal to `wanted`. Equal nodes are not touched:
 * they keep a selection, and need no layout. Returns the last patched child. Children after it are removed, unless
 * `keepsRest`.
 */
export function* patchChildren(
  parent: Node,
  settled: ChildNode | null,
  wanted: readonly ChildNode[],
  keepsRest = false,
): Work<ChildNode | null> {
  let last = settled;
  for (const [position, node] of wanted.entries()) {
    if (position % CHILDREN_PER_STEP === CHILDREN_PER_STEP - 1) yield;
    const present = next(parent, last);
    if (present === null) parent.appendChild(node);
    else if (!(yield* patched(present, node))) present.replaceWith(node);
    last = next(parent, last);
  }
  for (let extra = next(parent, last); extra !== null && !keepsRest; extra = next(parent, last)) extra.remove();
  return last;
}

function next(parent: Node, node: ChildNode | null): ChildNode | null {
  return node === null ? parent.firstChild : node.nextSibling;
}

/** Makes `present` equal to `wanted`, if they have the same tag and attributes. */
function* patched(present: Node, wanted: Node): Work<boolean> {
  if (present instanceof Text && wanted instanceof Text) {
    if (wanted.data.startsWith(present.data)) present.appendData(wanted.data.slice(present.data.length));
    else present.data = wanted.data;
    return true;
  }
  if (!(present instanceof Element && wanted instanceof Element) || !sameShell(present, wanted)) return false;
  yield* patchChildren(present, null, [...wanted.childNodes]);
  return true;
}

function sameShell(one: Element, other: Element): boolean {
  return (
    one.localName === other.localName &&
    one.attributes.length === other.attributes.length &&
    [...one.attributes].every(({ name, value }) => other.getAttribute(name) === value)
  );
}
