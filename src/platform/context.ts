import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

/** What follows a call through its awaits. One file, so that a runtime without async hooks can swap it. */
export interface Context<T> {
  run<R, A extends unknown[]>(value: T, work: (...args: A) => R, ...args: A): R
  get(): T | undefined
  /** Every promise of the process pays for a context that may be in use. */
  close(): void
}

export function createContext<T>(): Context<T> {
  return new LocalContext<T>()
}

/** `run` is Node's own: every operation passes through it. */
class LocalContext<T> extends AsyncLocalStorage<T> implements Context<T> {
  get(): T | undefined {
    return this.getStore()
  }

  close(): void {
    this.disable()
  }
}

/** Work that somebody else will call, in the context in which it was given to them: with the caller's own storages. */
// oxlint-disable-next-line no-explicit-any -- of any shape, and of the same one
export function inContext<F extends (...args: any[]) => unknown>(work: F): F {
  return AsyncResource.bind(work)
}
