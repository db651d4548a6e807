/** A link leads to another site or to a mail, and never runs anything. Relative ones would act on this site. */
const SAFE_LINK = /^(?:https?:|mailto:)/i;
const SAFE_IMAGE = /^(?:https?:\/\/|data:image\/(?:png|jpeg|gif|webp|avif);base64,[a-z\d+/=]+$)/i;
/** The longest `data:` image in characters: less than what an open block may have. */
const LONGEST_DATA = 16_000;

export const NEW_WINDOW: readonly (readonly [string, string])[] = [
  ["target", "_blank"],
  ["rel", "noopener noreferrer nofollow"],
];

export function isSafeLink(url: string): boolean {
  return SAFE_LINK.test(url.trim());
}

/** Whether `url` may be the address of an image: one on the web, or a small one that is its own address. */
export function isSafeImage(url: string): boolean {
  return SAFE_IMAGE.test(url) && hostOf(url) !== undefined && (!isDataUrl(url) || url.length <= LONGEST_DATA);
}

export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/** The host of an address, with its port; undefined for what is none. */
export function hostOf(url: string): string | undefined {
  try {
    return new URL(url).host;
  } catch {
    return undefined;
  }
}
