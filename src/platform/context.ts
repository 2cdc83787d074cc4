import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

/**
 * A value that follows a call through its awaits. It has its own file, so that a runtime without async hooks can
 * replace it.
 */
export interface Context<T> {
  run<R, A extends unknown[]>(value: T, work: (...args: A) => R, ...args: A): R
  get(): T | undefined
  /** Closes the context. An open context slows down every promise of the process. */
  close(): void
}

export function createContext<T>(): Context<T> {
  return new LocalContext<T>()
}

/** `run` is Node's own method, because every operation passes through it. */
class LocalContext<T> extends AsyncLocalStorage<T> implements Context<T> {
  get(): T | undefined {
    return this.getStore()
  }

  close(): void {
    this.disable()
  }
}

/** Binds a function to the current context, so that it runs with its caller's own storages. */
// oxlint-disable-next-line no-explicit-any -- of any shape, and of the same one
export function inContext<F extends (...args: any[]) => unknown>(work: F): F {
  return AsyncResource.bind(work)
}
