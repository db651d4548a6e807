/** Work that can be interrupted wherever it yields. */
export type Work<Result = void> = Generator<void, Result, void>;
