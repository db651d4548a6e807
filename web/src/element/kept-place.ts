/** A place in a conversation: so many pixels below the top of an answer. */
export interface Place {
  readonly responseId: string;
  readonly offset: number;
}

/** Where readers of this tab were when they left its page: a place for each conversation of which they weren't at the end. */
const KEY = "evenflow-places";
/** More conversations than a page has; those of pages that were left for good are forgotten by it. */
const MOST = 10;

/** The place at which a conversation with these answers was left; `undefined` for its end. */
export function keptPlace(responseIds: readonly string[]): Place | undefined {
  return places().find(({ responseId }) => responseIds.includes(responseId));
}

/** Keeps a place of the conversation with these answers, in the stead of any other; `undefined`: its end. */
export function keepPlace(place: Place | undefined, responseIds: readonly string[]): void {
  const known = places();
  const others = known.filter(({ responseId }) => !responseIds.includes(responseId));
  const kept = place === undefined ? others : [...others, place].slice(-MOST);
  if (kept.length === 0 && known.length === 0) return;
  try {
    if (kept.length === 0) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // Where nothing may be kept, a conversation begins at its end.
  }
}

function places(): readonly Place[] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isPlace) : [];
  } catch {
    return [];
  }
}

function isPlace(it: unknown): it is Place {
  return it instanceof Object && "responseId" in it && "offset" in it && Number.isFinite(it.offset);
}
