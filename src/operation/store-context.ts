import { createEnclosingContext, type Enclosing, type EnclosingContext } from './enclosing.ts'

interface Shared {
  readonly context: EnclosingContext
  instances: number
}

const shared = new WeakMap<object, Shared>()

/** Shared by all stores, because the transaction of one store may be joined through another. */
const handles = new WeakMap<object, Enclosing>()

/**
 * Instances on one store find each other's operations: a run of one inside a run of the other shares its transaction.
 * Returns a function to leave. It returns true for the last instance, which then closes the store.
 */
export function enterContext(store: object): {
  readonly context: EnclosingContext
  readonly handles: WeakMap<object, Enclosing>
  leave(): boolean
} {
  let entry = shared.get(store)
  if (!entry) shared.set(store, (entry = { context: createEnclosingContext(), instances: 0 }))
  const { context } = entry
  const entered = entry
  entered.instances++
  return {
    context,
    handles,
    leave() {
      if (--entered.instances > 0) return false
      shared.delete(store)
      context.close()
      return true
    },
  }
}
