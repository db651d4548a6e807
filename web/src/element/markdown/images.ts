import { made } from "../made.ts";
import type { Strings } from "../strings.ts";
import { hostOf, isDataUrl, isSafeImage, NEW_WINDOW } from "./safe-urls.ts";

/**
 * Which images load: none; those that the reader requests; all; or those of these hosts, and others on request. A model
 * can be made to write an address that sends the conversation to another server.
 */
export type ImagePolicy = "none" | "ask" | "all" | readonly string[];

const LOAD_CLASS = "load-image";

/** The policy in an attribute: one of the three words, or hosts separated by spaces or commas. */
export function imagePolicyOf(attribute: string | null): ImagePolicy {
  const words = (attribute ?? "")
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((word) => word !== "");
  const [word] = words;
  if (word === undefined) return "ask";
  return words.length === 1 && (word === "none" || word === "ask" || word === "all") ? word : words;
}

/** The images of an answer, with those that the reader has requested. */
export class Images {
  readonly #policy: ImagePolicy;
  readonly #strings: Strings;
  readonly #wanted = new Set<string>();
  readonly #failed = new Set<string>();

  constructor(policy: ImagePolicy, strings: Strings) {
    this.#policy = policy;
    this.#strings = strings;
  }

  /**
   * The element for an image: itself, or a link with a button that loads it. Within another link it is only its text.
   */
  element(url: string, name: string, isInLink: boolean): HTMLElement {
    if (this.#mayLoad(url)) return imageOf(url, name);
    const text = name === "" ? this.#strings.image : name;
    if (isInLink || isDataUrl(url) || !isSafeImage(url)) return made("span", { text });
    const link = made("a", { text, attributes: { href: url, ...Object.fromEntries(NEW_WINDOW) } });
    if (this.#policy === "none" || this.#failed.has(url)) return link;
    const load = made("button", { class: LOAD_CLASS, text: this.#strings.loadImageFrom(hostOf(url) ?? "") });
    load.type = "button";
    return made("span", { class: "image-offer", attributes: { "data-image": url } }, load, link);
  }

  /** Loads the image of the button `target`, if it is one. */
  load(target: HTMLElement): void {
    const offer = target.classList.contains(LOAD_CLASS) ? target.closest<HTMLElement>(".image-offer") : null;
    const url = offer?.dataset.image;
    if (offer === null || url === undefined) return;
    this.#wanted.add(url);
    offer.replaceWith(this.element(url, offer.querySelector("a")?.textContent ?? "", false));
  }

  /** Replaces an image that can't be loaded, or that the page's policy blocks, with a link. */
  giveUp(image: HTMLImageElement): void {
    const url = image.getAttribute("src") ?? "";
    this.#failed.add(url);
    image.replaceWith(this.element(url, image.alt, image.closest("a") !== null));
  }

  #mayLoad(url: string): boolean {
    if (!isSafeImage(url) || this.#policy === "none" || this.#failed.has(url)) return false;
    if (isDataUrl(url) || this.#policy === "all" || this.#wanted.has(url)) return true;
    return this.#policy !== "ask" && this.#policy.includes(hostOf(url) ?? "");
  }
}

function imageOf(url: string, name: string): HTMLImageElement {
  // The address is set last, since browsers may begin to load then.
  const attributes = { alt: name, loading: "lazy", decoding: "async", referrerpolicy: "no-referrer", src: url };
  return made("img", { attributes });
}
