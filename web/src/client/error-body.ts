import type { ErrorBody } from "./errors.ts";
import { type Check, number, optional, shape, string } from "./shape.ts";

/** Reads an {@link ErrorBody}. */
export const errorBody: Check<ErrorBody> = shape({
  type: string,
  code: string,
  message: string,
  param: optional(string, undefined),
  retry_after_ms: optional(number, undefined),
  expected: optional(string, null),
});
