import type { Env, MarkdownIt, StateInline } from "markdown-it";

const IS_OPEN = Symbol("the text goes on");
const CONTEXT = Symbol("where the inline text stands");

interface Context {
  readonly isInCell: boolean;
  /** Whether it is the last text, and more of it may arrive. */
  readonly isOpenEnd: boolean;
}

/** An environment for a text that is still arriving; `known` has the definitions of other texts. */
export function openEnv(known: Env): Env {
  return { ...known, [IS_OPEN]: true };
}

/** Extends `parser` so that its inline rules know the context of their text. */
export function knowContext(parser: MarkdownIt): void {
  parser.core.ruler.at("inline", ({ tokens, md, env }) => {
    const last =
      env[IS_OPEN] === true
        ? [...tokens].reverse().find(({ type, content }) => type === "inline" && content !== "")
        : undefined;
    for (const [position, token] of tokens.entries()) {
      if (token.type !== "inline" || token.children === null) continue;
      const isInCell = /^t[hd]_open$/.test(tokens[position - 1]?.type ?? "");
      env[CONTEXT] = { isInCell, isOpenEnd: token === last } satisfies Context;
      md.inline.parse(token.content, md, env, token.children);
    }
    delete env[CONTEXT];
  });
}

export function contextOf({ env }: StateInline): Context {
  return (env[CONTEXT] as Context | undefined) ?? { isInCell: false, isOpenEnd: false };
}
