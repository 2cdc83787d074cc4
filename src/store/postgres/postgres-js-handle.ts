import { onceError } from '../../errors.ts'
import type { Row, TakeTurn } from '../store.ts'

/** postgres.js as it is at run time: a tag function that is also an object. */
export interface Sql {
  (strings: TemplateStringsArray, ...values: unknown[]): LazyQuery
  unsafe(text: string, values?: unknown[], options?: { prepare: boolean }): LazyQuery
  savepoint(...args: unknown[]): Promise<unknown>
}

/** A query that its `handler` sends when the query is first awaited. */
interface LazyQuery extends Promise<readonly Row[]> {
  handler?: Handler
  readonly strings?: readonly string[]
  reject(error: unknown): void
}

type Handler = ((query: LazyQuery) => void) & { debug?: unknown }

/** `lost` is set when the connection is lost. After that, postgres.js must not get a statement for it. */
export interface Life {
  lost: unknown
}

interface Hooks {
  /** The error to refuse with, or undefined. */
  refusal(text: string): unknown
  /**
   * For our own transactions. The last statement before COMMIT decides. postgres.js would remember an error that a
   * savepoint has undone.
   */
  readonly life?: Life
  /** For the user's transactions: postgres.js must manage the savepoints itself. */
  readonly nativeSavepoints?: boolean
  readonly takeTurn?: TakeTurn | undefined
}

/** The same handle, which checks `refusal` right before each query is sent, however late that is. */
export function guardedSql(sql: Sql, hooks: Hooks): Sql {
  let savepoints = 0
  const handle: Sql = new Proxy(sql, {
    apply: (target, self, args) => guarded(Reflect.apply(target, self, args) as LazyQuery, hooks),
    get(target, key) {
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      if (key === 'unsafe' || key === 'file') {
        return (...args: unknown[]) => guarded(Reflect.apply(value, target, args) as LazyQuery, hooks)
      }
      // Sends it through the transaction. postgres.js would use another connection.
      if (key === 'notify') {
        return (channel: string, payload: unknown) => handle`select pg_notify(${channel}, ${String(payload)})`
      }
      if (key === 'prepare') return refusePrepare
      if (key !== 'savepoint') return value
      return (...args: unknown[]) => {
        const work = workOf(args)
        return hooks.nativeSavepoints
          ? Reflect.apply(value, target, [(inner: Sql) => work(guardedSql(inner, hooks))])
          : savepoint(handle, `once_${++savepoints}`, work)
      }
    },
  })
  return handle
}

/**
 * After the connection is lost, neither COMMIT nor ROLLBACK may be sent: postgres.js may have reopened it for other
 * code.
 */
export function unlessLost<T>(life: Life, end: Promise<T>): Promise<T> {
  const unless = <A>(go: (value: A) => T) => {
    return (value: A): T | Promise<T> => (life.lost === undefined ? go(value) : new Promise<never>(() => {}))
  }
  return end.then(
    unless((value: T) => value),
    unless((error: unknown) => {
      throw error
    }),
  )
}

function guarded(query: LazyQuery, { refusal, life, takeTurn }: Hooks): LazyQuery {
  const send = query.handler
  if (typeof send !== 'function') return query
  const go = (late: LazyQuery): void => {
    const observed = (): Promise<unknown> =>
      Promise.prototype.then.call(late, undefined, (error: unknown) => {
        if (life && isGone(error)) life.lost ??= error
      })
    const error = refusal(late.strings?.[0] ?? '')
    if (error !== undefined) {
      late.reject(error)
      void observed()
      return
    }
    if (!life) return send(late)
    // The listener of postgres.js would remember the error, and roll back at the end.
    late.catch = observed as LazyQuery['catch']
    send(late)
    Reflect.deleteProperty(late, 'catch')
  }
  const handler: Handler = (late) => {
    const turn = takeTurn?.(async () => {
      go(late)
      await Promise.prototype.then.call(late, ignore, ignore)
    })
    if (turn) turn.catch((error: unknown) => late.reject(error))
    else go(late)
  }
  handler.debug = send.debug
  query.handler = handler
  return query
}

function ignore(): void {}

function isGone(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^(?:CONNECTION_|CONNECT_TIMEOUT$|E[A-Z]+$)/.test(code)
}

type Work = (sql: Sql) => unknown

/** savepoint(work), savepoint(name, work), savepoint`query` */
function workOf(args: unknown[]): Work {
  const [first, second] = args
  if (Array.isArray((first as { raw?: unknown } | undefined)?.raw)) {
    return (sql) => Reflect.apply(sql, undefined, args)
  }
  return (second ?? first) as Work
}

async function savepoint(sql: Sql, name: string, work: Work): Promise<unknown> {
  await sql.unsafe(`savepoint ${name}`)
  try {
    const made = work(sql)
    const result: unknown = await (Array.isArray(made) ? Promise.all(made) : made)
    await sql.unsafe(`release savepoint ${name}`)
    return result
  } catch (error) {
    await sql.unsafe(`rollback to savepoint ${name}`).catch(() => {})
    throw error
  }
}

function refusePrepare(): never {
  throw onceError('ONCE_TX_TAKEN')
}
