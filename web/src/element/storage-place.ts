import type { ClientStorage } from "../client/index.ts";

/** The places in the tab's storage that elements of this page have. */
export const places = new Set<string>();

/** A place that no other element of the page has: by its `id`, else by its number among those without. The first has the client's usual one. */
export function takePlace(id: string): string {
  let place = id;
  for (let number = 2; places.has(place); number += 1) place = `${id}#${number}`;
  places.add(place);
  return place;
}

/** The tab's storage, with names of its own for `place`. Where nothing may be kept, its methods throw. */
export function storageOf(place: string): ClientStorage {
  const at = (key: string): string => (place === "" ? key : `${key} ${place}`);
  return {
    getItem: (key) => sessionStorage.getItem(at(key)),
    setItem: (key, value) => sessionStorage.setItem(at(key), value),
  };
}
