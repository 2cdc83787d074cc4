import { invalid } from '../options.ts'
import type { CallStorage } from './types.ts'

/** As much of IndexedDB as is used here. */
interface Target {
  addEventListener(type: string, listener: () => void): void
}
interface Request<T> extends Target {
  readonly result: T
  readonly error: unknown
}
interface Calls {
  get(name: string): Request<string | undefined>
  getAll(): Request<string[]>
  put(text: string, name: string): unknown
  delete(name: string): unknown
}
interface Transaction extends Target {
  objectStore(name: string): Calls
  readonly error: unknown
}
interface Database extends Target {
  createObjectStore(name: string): unknown
  transaction(name: string, mode: string, options: { durability: string }): Transaction
  close(): void
}
interface Factory {
  open(name: string, version: number): Request<Database>
}

const CALLS = 'calls'

/** Keeps calls in IndexedDB: they survive reloads, closed tabs and, where the browser allows it, power failures. */
export function indexedDbStorage(database = 'effectively-once'): CallStorage {
  const factory = (globalThis as { indexedDB?: Factory }).indexedDB
  if (!factory) throw invalid('indexedDbStorage needs IndexedDB')
  let opened: Promise<Database> | undefined

  const open = (): Promise<Database> => {
    const opening = new Promise<Database>((resolve, reject) => {
      const request = factory.open(database, 1)
      request.addEventListener('upgradeneeded', () => void request.result.createObjectStore(CALLS))
      request.addEventListener('error', () => reject(request.error))
      request.addEventListener('blocked', () => reject(new Error('another tab holds an older version of the database')))
      request.addEventListener('success', () => {
        const db = request.result
        db.addEventListener('versionchange', () => {
          db.close()
          opened = undefined
        })
        db.addEventListener('close', () => (opened = undefined))
        resolve(db)
      })
    })
    opening.catch(() => (opened = undefined))
    return opening
  }

  /** One transaction: reads, decides and writes. It resolves when the transaction is on disk. */
  const transact = async <T>(
    mode: string,
    read: (calls: Calls) => Request<unknown>,
    decide: (calls: Calls, found: unknown) => T,
  ) => {
    const db = await (opened ??= open())
    return new Promise<T>((resolve, reject) => {
      const transaction = db.transaction(CALLS, mode, { durability: 'strict' })
      const calls = transaction.objectStore(CALLS)
      const reading = read(calls)
      let decided: T
      reading.addEventListener('success', () => (decided = decide(calls, reading.result)))
      transaction.addEventListener('complete', () => resolve(decided))
      transaction.addEventListener('abort', () =>
        reject((transaction.error as Error | null) ?? new Error('the transaction was aborted')),
      )
    })
  }

  return {
    add: (name, text) =>
      transact(
        'readwrite',
        (calls) => calls.get(name),
        (calls, found) => {
          if (found === undefined) calls.put(text, name)
          return (found as string | undefined) ?? text
        },
      ),
    swap: (name, from, to) =>
      transact(
        'readwrite',
        (calls) => calls.get(name),
        (calls, found) => {
          if (found !== from) return false
          if (to === null) calls.delete(name)
          else calls.put(to, name)
          return true
        },
      ),
    list: () =>
      transact(
        'readonly',
        (calls) => calls.getAll(),
        (_, found) => found as string[],
      ),
  }
}
