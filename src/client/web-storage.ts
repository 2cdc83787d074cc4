import { invalid } from '../options.ts'
import { sleep } from '../platform/clock.ts'
import { webClock } from '../platform/web.ts'
import { LATE_LOOK_MS, LATE_MS_MAX } from './limits.ts'
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
  query(): Promise<{ readonly held?: readonly { readonly name?: string }[] }>
}

export function webLocks(): LocksLike | undefined {
  return (globalThis as { navigator?: { locks?: LocksLike } }).navigator?.locks
}

/**
 * Keeps calls in `localStorage`, which survives reloads. A Web Lock keeps two tabs apart. A browser may lose the last
 * writes in a power failure, or when a tab is killed. Use `indexedDbStorage` to prevent this.
 *
 * A tab may see the writes of another tab later than it gets the lock, because each has its own copy of `localStorage`.
 * So each write has a version, and its tab holds a lock with this version in the name. The browser knows all locks at
 * once, so the next tab knows which version it must see first.
 */
export function webStorage(storage: WebStorageLike, prefix = 'effectively-once:'): CallStorage {
  const locks = webLocks()
  if (!locks) throw invalid('webStorage needs Web Locks: a page with https, or on localhost')
  const versionName = `version of ${prefix}`
  const lockOf = (version: number): string => `${versionName} ${version}`
  const versionSeen = (): number => Number(storage.getItem(versionName)) || 0
  /** Frees the lock of this tab's last version. */
  let free = (): void => {}

  /** Waits until this tab sees all that others have written, and returns the version. */
  const caughtUp = async (): Promise<number> => {
    const { held = [] } = await locks.query()
    const versions = held.map(({ name = '' }) => {
      const version = Number(name.slice(name.lastIndexOf(' ')))
      return name === lockOf(version) ? version : 0
    })
    const newest = Math.max(...versions, versionSeen())
    const until = webClock.now() + LATE_MS_MAX
    while (versionSeen() < newest && webClock.now() < until) await sleep(webClock, LATE_LOOK_MS)
    // The user has emptied the storage.
    if (versionSeen() < newest) storage.setItem(versionName, `${newest}`)
    return newest
  }

  const hold = (version: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const held = (): Promise<void> =>
        new Promise((end) => {
          free()
          free = end
          resolve()
        })
      locks.request(lockOf(version), held).catch(reject)
    })

  /** `run` tells what it found, and whether it wrote. */
  const exclusive = <T>(run: () => { readonly found: T; readonly wrote?: boolean }): Promise<T> =>
    locks.request(prefix, async () => {
      // Each tab has a sessionStorage of its own.
      const isShared = storage !== (globalThis as { sessionStorage?: unknown }).sessionStorage
      const version = isShared ? await caughtUp() : 0
      const { found, wrote } = run()
      if (isShared && wrote) {
        storage.setItem(versionName, `${version + 1}`)
        await hold(version + 1)
      }
      return found
    })

  return {
    add: (name, text) =>
      exclusive(() => {
        const stored = storage.getItem(prefix + name)
        if (stored === null) storage.setItem(prefix + name, text)
        return { found: stored ?? text, wrote: stored === null }
      }),
    swap: (name, from, to) =>
      exclusive(() => {
        if (storage.getItem(prefix + name) !== from) return { found: false }
        if (to === null) storage.removeItem(prefix + name)
        else storage.setItem(prefix + name, to)
        return { found: true, wrote: true }
      }),
    list: () =>
      exclusive(() => ({
        found: Array.from({ length: storage.length }, (_, i) => storage.key(i) ?? '')
          .filter((name) => name.startsWith(prefix) && name !== versionName)
          .map((name) => storage.getItem(name) ?? ''),
      })),
  }
}
