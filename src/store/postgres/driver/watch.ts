import type { Watch } from '../../store.ts'
import type { PgPool } from './client.ts'

type Callback = Parameters<Watch['bypass']>[0]
type Method = (this: unknown, ...args: unknown[]) => unknown

const WORDS = 6
const LOOKED_AT = 300

/** Above zero while a driver of ours, or a method of the pool already reported, calls the pool. */
let inside = 0

/** Calls the pool without being reported. */
export function unwatched<T>(call: () => T): T {
  inside += 1
  try {
    return call()
  } finally {
    inside -= 1
  }
}

const watchers = new WeakMap<object, Set<Callback>>()

/** Reports every `query` and `connect` on this very pool that does not come from a driver of ours. */
export function watchPool(pool: PgPool): Watch {
  return {
    bypass(callback) {
      let callbacks = watchers.get(pool)
      if (!callbacks) {
        callbacks = new Set()
        watchers.set(pool, callbacks)
      }
      const mine: Callback = (call) => callback(call)
      callbacks.add(mine)
      const restore = callbacks.size === 1 ? wrapBoth(pool, callbacks) : undefined
      if (restore) restorers.set(pool, restore)
      return () => {
        if (!callbacks.delete(mine) || callbacks.size > 0) return
        restorers.get(pool)?.()
        restorers.delete(pool)
      }
    },
  }
}

const restorers = new WeakMap<object, () => void>()

function wrapBoth(pool: PgPool, callbacks: ReadonlySet<Callback>): () => void {
  const restoreQuery = wrap(pool, 'query', callbacks)
  const restoreConnect = wrap(pool, 'connect', callbacks)
  return () => {
    restoreConnect()
    restoreQuery()
  }
}

function wrap(pool: PgPool, name: 'query' | 'connect', callbacks: ReadonlySet<Callback>): () => void {
  const holder = pool as unknown as Record<string, Method>
  const before = Object.getOwnPropertyDescriptor(holder, name)
  const original = holder[name] as Method
  const watched: Method = function (this: unknown, ...args) {
    if (inside > 0) return original.apply(this, args)
    const call = {
      words: name === 'connect' ? 'connect' : wordsOf(args[0]),
      starved: isFull(pool),
      total: pool.totalCount,
    }
    for (const callback of callbacks) callback(call)
    return unwatched(() => original.apply(this, args))
  }
  Object.defineProperty(holder, name, { value: watched, configurable: true, writable: true, enumerable: false })
  return () => {
    // Other code wrapped the method after us. Its wrapper stays, and ours only passes calls on.
    if (holder[name] !== watched) return
    if (before) Object.defineProperty(holder, name, before)
    else delete holder[name]
  }
}

function isFull(pool: PgPool): boolean {
  return pool.totalCount >= (pool.options?.max ?? Infinity) && pool.idleCount === 0
}

function wordsOf(config: unknown): string {
  const text = typeof config === 'string' ? config : (config as { text?: unknown } | null | undefined)?.text
  if (typeof text !== 'string') return ''
  return text.slice(0, LOOKED_AT).trim().split(/\s+/).slice(0, WORDS).join(' ')
}
