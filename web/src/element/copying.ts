import type { Strings } from "./strings.ts";

/** How long a button shows that the text was copied, in milliseconds. */
const SAID_MS = 2_000;

/** Copies `text`, and shows in `button` whether that worked. */
export async function copyBy(button: HTMLButtonElement, text: string, strings: Strings): Promise<void> {
  const said = await copied(text);
  const label = button.dataset.label ?? button.textContent ?? "";
  button.dataset.label = label;
  button.textContent = said ? strings.copied : strings.notCopied;
  setTimeout(() => {
    button.textContent = label;
  }, SAID_MS);
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The clipboard needs HTTPS and the reader's permission.
    return copiedAsSelection(text);
  }
}

/** Copies a selection, as the reader would, and restores the focus. */
function copiedAsSelection(text: string): boolean {
  const focused = deepestFocus();
  const box = document.createElement("textarea");
  box.value = text;
  box.readOnly = true;
  box.style.position = "fixed";
  box.style.opacity = "0";
  document.body.append(box);
  box.select();
  try {
    return document.execCommand("copy");
  } finally {
    box.remove();
    focused?.focus({ preventScroll: true });
  }
}

function deepestFocus(): HTMLElement | null {
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  return focused instanceof HTMLElement ? focused : null;
}
