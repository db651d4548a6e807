import DOMPurify from "dompurify";

/** All that Markdown makes. */
const TAGS = [
  ..."p br hr h1 h2 h3 h4 h5 h6 blockquote ul ol li pre code em strong s sup a div span".split(" "),
  ..."table thead tbody tr th td".split(" "),
];
/** What needs no address; the values of all others have to be one. What an image's is, is looked at where it is made. */
const PLAIN_ATTRIBUTES = [
  ..."title target rel start align dir data-language data-maths data-depth".split(" "),
  ..."data-task data-alert data-footnote data-definition data-image".split(" "),
];

/**
 * What `html` stands for, with everything left out that isn't the plainest of markup. The parser lets none of it through in
 * the first place; this is the second wall.
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

/** The same of a formula: nothing in it is a link, or looks like anything but a formula. */
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

/** The same of coloured code: its text, and the classes of its words. Nothing else is made at all. */
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
