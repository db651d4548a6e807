import DOMPurify from "dompurify";

/** All tags of rendered Markdown. */
const TAGS = [
  ..."p br hr h1 h2 h3 h4 h5 h6 blockquote ul ol li pre code em strong s sup a div span".split(" "),
  ..."table thead tbody tr th td".split(" "),
];
/** Attributes whose values need not be addresses, as all others must. Addresses of images are checked in `Images`. */
const PLAIN_ATTRIBUTES = [
  ..."title target rel start align dir data-language data-maths data-depth".split(" "),
  ..."data-task data-alert data-footnote data-definition data-image".split(" "),
];

/**
 * Parses `html`, and removes all but the plainest markup. The parser produces nothing else; this is the second layer
 * of defence.
 */
export function safeHtml(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", ...PLAIN_ATTRIBUTES],
    ADD_URI_SAFE_ATTR: PLAIN_ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  });
}

/** Parses a formula's MathML: without links, styles, ids and classes. */
export function safeMathml(mathml: string): DocumentFragment {
  return DOMPurify.sanitize(mathml, {
    RETURN_DOM_FRAGMENT: true,
    USE_PROFILES: { mathMl: true },
    FORBID_ATTR: ["href", "style", "id", "class"],
  });
}

const SPAN = /<span class="(?<name>[^"<>]*)">|<\/span>|(?<text>[^<]+)/g;
const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#x27;": "'",
};

/** Parses coloured code: its text, and spans with a class. It creates nothing else. */
export function safeSpans(html: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  let place: ParentNode = fragment;
  for (const { 0: found, groups } of html.matchAll(SPAN)) {
    if (groups?.text !== undefined) {
      place.append(groups.text.replace(/&[a-z#\d]+;/g, (entity) => ENTITIES[entity] ?? entity));
    } else if (found === "</span>") {
      place = place.parentNode ?? fragment;
    } else {
      const span = document.createElement("span");
      span.className = groups?.name ?? "";
      place.append(span);
      place = span;
    }
  }
  return fragment;
}
