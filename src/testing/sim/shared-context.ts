import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context } from '../../platform/context.ts'

interface Frame {
  readonly owner: object
  readonly value: unknown
  readonly outer: Frame | undefined
}

const frames = new AsyncLocalStorage<Frame>()

/** Runs the callback in the context in which it was passed, as a real timer does. */
export function inContext(callback: () => void): () => void {
  const frame = frames.getStore()
  return frame === undefined ? callback : () => frames.run(frame, callback)
}

/** A storage that was used once slows down every promise until it is disabled. */
export function endContexts(): void {
  frames.disable()
}

/** A context for worlds without nested operations. */
export function noContext<T>(): Context<T> {
  return { run: (_, work, ...args) => work(...args), get: () => undefined, close: () => {} }
}

/**
 * A context like the real one, but all contexts share a single storage. Every storage that was ever used slows down all
 * promises of the process, and a simulation creates thousands of instances.
 */
export function sharedContext<T>(): Context<T> {
  const owner = {}
  return {
    run: (value, work, ...args) => frames.run({ owner, value, outer: frames.getStore() }, work, ...args),
    get() {
      for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
        if (frame.owner === owner) return frame.value as T
      }
      return undefined
    },
    // The storage is shared, so closing one context must not close it.
    close: () => {},
  }
}
