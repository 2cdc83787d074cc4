import { invalid } from '../options.ts'
import type { CallStorage } from './types.ts'

/** `localStorage` or `sessionStorage`. */
export interface WebStorageLike {
  readonly length: number
  key(index: number): string | null
  getItem(name: string): string | null
  setItem(name: string, value: string): void
  removeItem(name: string): void
}

/** The Web Locks of a browser: `navigator.locks`. */
export interface LocksLike {
  request<T>(name: string, run: () => T | Promise<T>): Promise<T>
}

export function webLocks(): LocksLike | undefined {
  return (globalThis as { navigator?: { locks?: LocksLike } }).navigator?.locks
}

/**
 * Keeps calls in `localStorage`, which survives reloads. Two tabs are kept apart by a Web Lock. A browser may lose the
 * last writes in a power failure: `indexedDbStorage` does not.
 */
export function webStorage(storage: WebStorageLike, prefix = 'effectively-once:'): CallStorage {
  const locks = webLocks()
  if (!locks) throw invalid('webStorage needs Web Locks: a page with https, or on localhost')
  const exclusive = <T>(run: () => T): Promise<T> => locks.request(prefix, run)
  return {
    add: (name, text) =>
      exclusive(() => {
        const stored = storage.getItem(prefix + name)
        if (stored === null) storage.setItem(prefix + name, text)
        return stored ?? text
      }),
    swap: (name, from, to) =>
      exclusive(() => {
        if (storage.getItem(prefix + name) !== from) return false
        if (to === null) storage.removeItem(prefix + name)
        else storage.setItem(prefix + name, to)
        return true
      }),
    list: () =>
      exclusive(() =>
        Array.from({ length: storage.length }, (_, i) => storage.key(i) ?? '')
          .filter((name) => name.startsWith(prefix))
          .map((name) => storage.getItem(name) ?? ''),
      ),
  }
}
