import { invalid, refuseUnknown } from '../options.ts'
import type { SqlStore } from '../store/store.ts'
import type { CacheServer } from './cache-server.ts'
import { SharedAnswers } from './shared-answers.ts'

export interface TieredOptions {
  /** The cache that the processes share, such as `redisCache(client)`. */
  readonly cache: CacheServer
}

const OPTIONS = new Set(['cache'])

/**
 * Returns the same store with a shared cache of completed answers in front of it. The database alone decides. The cache
 * only spares the database the retries of completed operations.
 */
// oxlint-disable-next-line no-explicit-any -- whatever the store's transaction is: it is passed through
export function tiered<S extends SqlStore<any>>(store: S, options: TieredOptions): S {
  refuseUnknown(options, OPTIONS, 'tiered()')
  const { cache } = options ?? {}
  if (typeof store?.refuse !== 'function') throw invalid('tiered() needs a SQL store')
  if (typeof cache?.look !== 'function') throw invalid('tiered() needs { cache: redisCache(client) }')
  const sharedCache: S['sharedCache'] = (parts) => new SharedAnswers(cache, store, parts)
  const bound = new Map<PropertyKey, unknown>()
  // A proxy works for stores with private fields, too.
  return new Proxy(store, {
    get(target, name) {
      if (name === 'sharedCache') return sharedCache
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (!bound.has(name)) bound.set(name, value.bind(target))
      return bound.get(name)
    },
  })
}
