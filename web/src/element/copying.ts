/** How long a button says that it has copied, in milliseconds. */
const SAID_MS = 2_000;

/** Copies `text`, and has `button` say whether that worked. */
export async function copyBy(button: HTMLButtonElement, text: string): Promise<void> {
  const said = await copied(text);
  const label = button.dataset.label ?? button.textContent ?? "";
  button.dataset.label = label;
  button.textContent = said ? "Copied" : "Not copied";
  setTimeout(() => {
    button.textContent = label;
  }, SAID_MS);
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not over plain HTTP, and not without the reader's permission.
    return false;
  }
}
