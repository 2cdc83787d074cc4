import { onceError, type OnceError } from '../../errors.ts'
import type { TakeTurn } from '../store.ts'
import { revocableHandle } from './revocable-handle.ts'

type Method = (...args: unknown[]) => unknown

/**
 * Prisma's promises start when they are awaited, and one promise may take several round trips. So the handle is checked
 * when a promise starts, and `quiet` waits for the running ones. Otherwise Prisma would run their rest on a released
 * connection.
 */
export function revocablePrisma(
  tx: object,
  takeTurn?: TakeTurn,
): { readonly tx: object; revoke(): void; quiet(): Promise<unknown> } {
  const held = revocableHandle(takeTurn)
  const running = new Set<Promise<unknown>>()

  const client = (target: object): object =>
    new Proxy(target, {
      get(_, key) {
        const value: unknown = Reflect.get(target, key)
        if (key === '$transaction') return nested(target, value as Method)
        if (typeof value === 'function') return method(target, value as Method, isRaw(key))
        return typeof value === 'object' && value !== null && typeof key === 'string' ? model(value) : value
      },
    })

  const model = (target: object): object =>
    new Proxy(target, {
      get(_, key) {
        const value: unknown = Reflect.get(target, key)
        return typeof value === 'function' ? method(target, value as Method, false) : value
      },
    })

  const method = (self: object, original: Method, raw: boolean): Method => {
    return (...args) => lazy(Reflect.apply(original, self, args), raw ? textOf(args[0]) : undefined)
  }

  const nested = (self: object, original: Method): Method => {
    return (work, options) => {
      const refusal = held.refusal() ?? (typeof work === 'function' ? undefined : listRefused())
      if (refusal) return Promise.reject(refusal)
      const run = (inner: object): unknown => (work as Method)(client(inner))
      return Reflect.apply(original, self, [run, options])
    }
  }

  const lazy = (promise: unknown, text?: unknown): unknown => {
    if (typeof promise !== 'object' || promise === null || !('then' in promise)) return promise
    return new Proxy(promise, {
      get(_, key) {
        const value: unknown = Reflect.get(promise, key)
        if (typeof value !== 'function') return value
        if (key !== 'then' && key !== 'catch' && key !== 'finally') {
          return (...args: unknown[]) => lazy(Reflect.apply(value, promise, args), text)
        }
        return (...args: unknown[]) => {
          const started = held.send(() => {
            const refusal = held.refusal(text)
            return refusal ? Promise.reject(refusal) : tracked((promise as Promise<unknown>).then((x) => x))
          })
          return Reflect.apply(started[key] as Method, started, args)
        }
      },
    })
  }

  const tracked = (promise: Promise<unknown>): Promise<unknown> => {
    running.add(promise)
    const done = (): void => void running.delete(promise)
    promise.then(done, done)
    return promise
  }

  return { tx: client(tx), revoke: () => held.revoke(), quiet: () => Promise.allSettled(running) }
}

function isRaw(key: string | symbol): boolean {
  return typeof key === 'string' && /^\$(?:query|execute)Raw/.test(key)
}

/** $queryRawUnsafe(text), $executeRaw`text`, and Prisma.sql`text`. */
function textOf(first: unknown): unknown {
  if (Array.isArray(first)) return first[0]
  const strings = (first as { strings?: unknown } | null | undefined)?.strings
  return Array.isArray(strings) ? strings[0] : first
}

function listRefused(): OnceError {
  const detail = 'A list given to tx.$transaction commits by itself. Give it a function, or await each query'
  return onceError('ONCE_TX_TAKEN', { detail })
}
