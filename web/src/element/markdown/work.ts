/** Work that can be interrupted wherever it yields. It must be where it yields `true`: the browser is to lay out what there is. */
export type Work<Result = void> = Generator<boolean | undefined, Result, void>;
