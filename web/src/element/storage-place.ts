import type { ClientStorage } from "../client/index.ts";

/** The suffixes of this page's elements in the tab's storage. */
export const places = new Set<string>();

/** A unique suffix for an element: its `id`, or its number among those without. The first has the client's own keys. */
export function takePlace(id: string): string {
  let place = id;
  for (let number = 2; places.has(place); number += 1) place = `${id}#${number}`;
  places.add(place);
  return place;
}

/** The tab's storage, with separate keys for `place`. If storage is forbidden, its methods throw. */
export function storageOf(place: string): ClientStorage {
  const at = (key: string): string => (place === "" ? key : `${key} ${place}`);
  return {
    getItem: (key) => sessionStorage.getItem(at(key)),
    setItem: (key, value) => sessionStorage.setItem(at(key), value),
  };
}
