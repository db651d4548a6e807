import { ProtocolError } from "./errors.ts";

/**
 * The fields of one JSON object that came over the network, read with a check of their type.
 * Every method throws {@link ProtocolError}, naming the field, when the value is not what the protocol says.
 */
export class JsonFields {
  readonly #what: string;
  readonly #fields: Readonly<Record<string, unknown>>;

  private constructor(fields: Readonly<Record<string, unknown>>, what: string) {
    this.#fields = fields;
    this.#what = what;
  }

  /** Wraps `value`, which must be an object; `what` names it in errors. */
  static of(value: unknown, what: string): JsonFields {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new ProtocolError(`${what} is not an object`);
    }
    return new JsonFields(value as Readonly<Record<string, unknown>>, what);
  }

  has(name: string): boolean {
    return this.#fields[name] !== undefined;
  }

  string(name: string): string {
    const value = this.#fields[name];
    return typeof value === "string" ? value : this.#mismatch(name, "a string");
  }

  nullableString(name: string): string | null {
    return this.#isAbsent(name) ? null : this.string(name);
  }

  optionalString(name: string): string | undefined {
    return this.#isAbsent(name) ? undefined : this.string(name);
  }

  /** A whole number of at least -1: -1 is the protocol's "no index yet". */
  index(name: string): number {
    const value = this.#fields[name];
    return Number.isSafeInteger(value) && (value as number) >= -1
      ? (value as number)
      : this.#mismatch(name, "an index");
  }

  number(name: string): number {
    const value = this.#fields[name];
    return typeof value === "number" && Number.isFinite(value) ? value : this.#mismatch(name, "a number");
  }

  optionalNumber(name: string): number | undefined {
    return this.#isAbsent(name) ? undefined : this.number(name);
  }

  /** `false` when the field is absent. */
  flag(name: string): boolean {
    const value = this.#fields[name] ?? false;
    return typeof value === "boolean" ? value : this.#mismatch(name, "true or false");
  }

  value(name: string): unknown {
    return this.#fields[name];
  }

  object(name: string): JsonFields {
    return JsonFields.of(this.#fields[name], `${this.#what}.${name}`);
  }

  optionalObject(name: string): JsonFields | undefined {
    return this.#isAbsent(name) ? undefined : this.object(name);
  }

  #isAbsent(name: string): boolean {
    return this.#fields[name] === undefined || this.#fields[name] === null;
  }

  #mismatch(name: string, expected: string): never {
    throw new ProtocolError(`${this.#what}.${name} is not ${expected}`);
  }
}
