/** A link leads to another site or to a mail, and never runs a script. Relative links would act on this site. */
const SAFE_LINK = /^(?:https?:|mailto:)/i;
const SAFE_IMAGE = /^(?:https?:\/\/|data:image\/(?:png|jpeg|gif|webp|avif);base64,[a-z\d+/=]+$)/i;
/** The longest `data:` image in characters: less than the limit of an open block. */
const LONGEST_DATA = 16_000;

export const NEW_WINDOW: readonly (readonly [string, string])[] = [
  ["target", "_blank"],
  ["rel", "noopener noreferrer nofollow"],
];

export function isSafeLink(url: string): boolean {
  return SAFE_LINK.test(url.trim());
}

/** Whether `url` may be the address of an image: on the web, or a short `data:` address. */
export function isSafeImage(url: string): boolean {
  return SAFE_IMAGE.test(url) && hostOf(url) !== undefined && (!isDataUrl(url) || url.length <= LONGEST_DATA);
}

export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/** The host of an address, with its port; undefined if it is invalid. */
export function hostOf(url: string): string | undefined {
  try {
    return new URL(url).host;
  } catch {
    return undefined;
  }
}
