/**
 * Work that can be interrupted wherever it yields. At `true` it must be, so that the browser lays out the result.
 */
export type Work<Result = void> = Generator<boolean | undefined, Result, void>;
