// oxlint-disable-next-line no-explicit-any -- any method of any object
type Method = (...args: any[]) => any
type Names<T> = { [K in keyof T]-?: NonNullable<T[K]> extends Method ? K : never }[keyof T] & string
type MethodOf<T, K extends keyof T> = Extract<NonNullable<T[K]>, Method>

/** Replaces methods of objects in place, and restores them later. */
export class Patches {
  private readonly done: {
    readonly object: object
    readonly name: string
    readonly original: Method
    readonly own: boolean
  }[] = []

  wrap<T extends object, K extends Names<T>>(
    object: T,
    name: K,
    make: (original: MethodOf<T, K>) => MethodOf<T, K>,
  ): void {
    const current = object[name] as Method | undefined
    if (current === undefined) return
    const original = current.bind(object) as MethodOf<T, K>
    this.done.push({ object, name, original: current, own: Object.hasOwn(object, name) })
    Object.defineProperty(object, name, { value: make(original), configurable: true, writable: true, enumerable: true })
  }

  original<T extends object, K extends Names<T>>(object: T, name: K): MethodOf<T, K> {
    const patch = this.done.find((of) => of.object === object && of.name === name)
    return ((patch?.original ?? object[name]) as Method).bind(object) as MethodOf<T, K>
  }

  remove(): void {
    for (const { object, name, original, own } of this.done.splice(0).toReversed()) {
      if (own)
        Object.defineProperty(object, name, { value: original, configurable: true, writable: true, enumerable: true })
      else delete (object as Record<string, unknown>)[name]
    }
  }
}
