import type { Batches, SqlStore } from '../../store/store.ts'

interface Open {
  rollback(): Promise<void>
}

/** Wraps a store and records every transaction that it opens. A case that fails halfway must not leave one open. */
export function tracked<Tx>(store: SqlStore<Tx>): { readonly store: SqlStore<Tx>; letGo(): Promise<void> } {
  const open: Open[] = []
  const keep = <S extends Open>(session: S): S => {
    open.push(session)
    return session
  }
  const openOne: SqlStore<Tx>['open'] = async (params) => keep(await store.open(params))
  const batches = store.batches
  const begin: SqlStore<Tx>['begin'] = async (params) => {
    const begun = await store.begin(params)
    keep(begun.session)
    return begun
  }
  const openBatch: Batches['open'] = async (params) => {
    const opened = await batches.open(params)
    keep(opened.session)
    return opened
  }
  return {
    store: over(store, { begin, open: openOne, ...(batches && { batches: over(batches, { open: openBatch }) }) }),
    async letGo() {
      for (const session of open) await session.rollback()
    },
  }
}

/**
 * Returns a proxy that prefers these members over those of the object. A proxy also works for classes with private
 * fields.
 */
function over<T extends object>(object: T, members: Partial<T>): T {
  return new Proxy(object, {
    get(target, name) {
      if (Object.hasOwn(members, name)) return members[name as keyof T]
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as (...args: unknown[]) => unknown).bind(target) : member
    },
  })
}
