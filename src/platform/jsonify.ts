/**
 * The type of a value after a round trip through JSON. The first caller gets the stored form, too, so a Date is a string
 * from the first answer on.
 */
export type Jsonify<T> = T extends { toJSON(): infer J }
  ? Jsonify<J>
  : T extends string | number | boolean | null | undefined | void
    ? T
    : T extends bigint | symbol | ((...args: never[]) => unknown)
      ? never
      : T extends readonly unknown[]
        ? { -readonly [K in keyof T]: Jsonify<T[K]> }
        : T extends object
          ? {
              [
                K in keyof T as K extends symbol ? never : T[K] extends (...args: never[]) => unknown ? never : K
              ]: Jsonify<T[K]>
            }
          : T
