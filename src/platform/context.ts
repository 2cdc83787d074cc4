import { AsyncLocalStorage } from 'node:async_hooks'

/** What follows a call through its awaits. One file, so that a runtime without async hooks can swap it. */
export interface Context<T> {
  run<R>(value: T, work: () => R): R
  get(): T | undefined
  /** Every promise of the process pays for a context that may be in use. */
  close(): void
}

export function createContext<T>(): Context<T> {
  const storage = new AsyncLocalStorage<T>()
  return {
    run: (value, work) => storage.run(value, work),
    get: () => storage.getStore(),
    close: () => storage.disable(),
  }
}
