import { ProtocolError } from "./errors.ts";

/** Gives a value that came over the network its type. Throws {@link ProtocolError}, with its name, where it has another. */
export type Check<T> = (value: unknown, name: string) => T;

/** What a check gives. */
export type Checked<C> = C extends Check<infer T> ? T : never;

function check<T>(test: (value: unknown) => boolean): Check<T> {
  return (value, name) => {
    if (!test(value)) throw new ProtocolError(`${name} makes no sense`);
    return value as T;
  };
}

export const string = check<string>((value) => typeof value === "string");
export const number = check<number>(Number.isFinite);
/** A whole number of at least -1: -1 is the protocol's "no index yet". */
export const index = check<number>((value) => Number.isSafeInteger(value) && (value as number) >= -1);
export const flag = optional(
  check<boolean>((value) => typeof value === "boolean"),
  false,
);
/** Whatever it is. */
export const anything: Check<unknown> = (value) => value;
/** An object, whatever its fields. */
export const object: Check<Readonly<Record<string, unknown>>> = check((value) => value instanceof Object);

/** What need not be there: `otherwise` stands for it where it is absent or `null`. */
export function optional<T, D>(present: Check<T>, otherwise: D): Check<T | D> {
  return (value, name) => (value === undefined || value === null ? otherwise : present(value, name));
}

/** A list of these. */
export function list<T>(item: Check<T>): Check<readonly T[]> {
  return (value, name) => {
    if (!Array.isArray(value)) throw new ProtocolError(`${name} makes no sense`);
    return value.map((found) => item(found, name));
  };
}

/** An object with these fields; what else it has is left out. */
export function shape<F extends Readonly<Record<string, Check<unknown>>>>(
  fields: F,
): Check<{ readonly [N in keyof F]: Checked<F[N]> }> {
  return (value, name) => {
    const found = object(value, name);
    const read: Record<string, unknown> = {};
    for (const field of Object.keys(fields)) read[field] = fields[field]?.(found[field], field);
    return read as { readonly [N in keyof F]: Checked<F[N]> };
  };
}
