/**
 * Work that can be interrupted wherever it yields. Where it yields `true` it must be: the browser is to lay out what there is.
 */
export type Work<Result = void> = Generator<boolean | undefined, Result, void>;
