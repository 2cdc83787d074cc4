import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context } from '../../platform/context.ts'

interface Frame {
  readonly owner: object
  readonly value: unknown
  readonly outer: Frame | undefined
}

const frames = new AsyncLocalStorage<Frame>()

/** A callback runs in the context it was given in, as a real timer's does. */
export function inContext(callback: () => void): () => void {
  const frame = frames.getStore()
  return frame === undefined ? callback : () => frames.run(frame, callback)
}

/** Once used, a storage costs every promise until it is switched off. */
export function endContexts(): void {
  frames.disable()
}

/** For worlds in which no operation runs inside another. */
export function noContext<T>(): Context<T> {
  return { run: (_, work, ...args) => work(...args), get: () => undefined, close: () => {} }
}

/**
 * A context like the real one, all of them on a single storage. Every storage that was ever used costs each promise of
 * the process for ever, and a simulation makes thousands of instances.
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
    // The storage is everybody's.
    close: () => {},
  }
}
