/** A place in a conversation, in pixels below the top of an answer. */
export interface Place {
  readonly responseId: string;
  readonly offset: number;
}

/**
 * The reader's positions in this tab's conversations. A conversation that was left at its end has none.
 */
const KEY = "evenflow-places";
/** The most positions: more than a page has conversations, so those of abandoned pages are forgotten. */
const MOST = 10;

/** The position at which a conversation with these answers was left; `undefined` for its end. */
export function keptPlace(responseIds: readonly string[]): Place | undefined {
  return places().find(({ responseId }) => responseIds.includes(responseId));
}

/** Stores the position in the conversation with these answers; `undefined`: its end. */
export function keepPlace(place: Place | undefined, responseIds: readonly string[]): void {
  const known = places();
  const others = known.filter(({ responseId }) => !responseIds.includes(responseId));
  const kept = place === undefined ? others : [...others, place].slice(-MOST);
  if (kept.length === 0 && known.length === 0) return;
  try {
    if (kept.length === 0) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // Without storage a conversation is shown from its end.
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
