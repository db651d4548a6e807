import type { MarkdownIt, Token } from "markdown-it";

/** Blocks whose direction the browser takes from their first letter. */
const LEAVES = new Set(["paragraph_open", "heading_open", "table_open"]);
/** Blocks that contain others: browsers don't look into those, so their direction is set here. */
const CONTAINERS = new Set([
  "bullet_list_open",
  "ordered_list_open",
  "list_item_open",
  "blockquote_open",
  "footnote_open",
]);
const LETTER = /\p{L}/u;
const RIGHT_TO_LEFT =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Script=Samaritan}\p{Script=Mandaic}]/u;

/** Extends `parser` so that each block has the direction of its text, without its code, which is left to right. */
export function knowDirections(parser: MarkdownIt): void {
  parser.core.ruler.push("directions", ({ tokens }) => {
    const open: { readonly token: Token; isDecided: boolean }[] = [];
    for (const [position, token] of tokens.entries()) {
      if (LEAVES.has(token.type) || isTightItem(token, tokens[position + 1])) token.attrSet("dir", "auto");
      if (CONTAINERS.has(token.type)) open.push({ token, isDecided: token.attrGet("dir") !== null });
      else if (CONTAINERS.has(token.type.replace(/_close$/, "_open"))) open.pop();
      const direction = directionOf(token.children ?? []);
      if (direction === undefined) continue;
      for (const container of open) {
        if (!container.isDecided) container.token.attrSet("dir", direction);
        container.isDecided = true;
      }
    }
  });
  parser.renderer.rules.code_inline = (tokens, position) =>
    `<code dir="ltr">${parser.utils.escapeHtml(tokens[position]?.content ?? "")}</code>`;
}

/** Whether a block is an item that has its text directly, without a paragraph. */
function isTightItem({ type }: Token, next: Token | undefined): boolean {
  return type === "list_item_open" && next?.type === "paragraph_open" && next.hidden;
}

/** The direction by the first letter of the text, as in browsers; undefined without a letter. */
function directionOf(inline: readonly Token[]): "ltr" | "rtl" | undefined {
  for (const { type, content } of inline) {
    const letter = type === "text" ? LETTER.exec(content)?.[0] : undefined;
    if (letter !== undefined) return RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr";
  }
  return undefined;
}
