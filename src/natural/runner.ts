import { invalid } from '../options.ts'

export type Dialect = 'postgres' | 'sqlite'

/** A transaction that runs SQL, whichever client made it. */
export interface SqlRunner {
  readonly dialect: Dialect
  query(text: string, values: readonly unknown[]): Promise<readonly Row[]>
}

type Row = Readonly<Record<string, unknown>>
type Method = (...args: unknown[]) => Promise<unknown>

/**
 * The runner of a transaction, by its shape: Prisma, postgres.js, Kysely, Drizzle, or a `query` as node-postgres,
 * PGlite and the SQLite store have it. Kysely's plugins are left out, because a plugin may rename columns.
 */
export function runnerOf(tx: unknown): SqlRunner {
  const raw = method(tx, '$queryRawUnsafe')
  if (raw) return postgres((text, values) => raw(text, ...values))
  const unsafe = method(tx, 'unsafe')
  if (unsafe) return postgres((text, values) => unsafe(text, [...values]))
  if (method(tx, 'executeQuery')) return postgres((text, values) => kysely(tx, text, values))
  const session = member(tx, 'session')
  if (method(session, 'prepareQuery')) return postgres((text, values) => drizzle(session, text, values))
  const query = method(tx, 'query')
  if (!query) throw invalid('this helper needs the tx of a SQL store, or an open transaction of its client')
  const send: Send = (text, values) => query(text, [...values])
  return member(tx, 'dialect') === 'sqlite' ? { dialect: 'sqlite', query: rowsOf(send) } : postgres(send)
}

type Send = (text: string, values: readonly unknown[]) => Promise<unknown>

function postgres(send: Send): SqlRunner {
  return { dialect: 'postgres', query: rowsOf(send) }
}

function rowsOf(send: Send): SqlRunner['query'] {
  return async (text, values) => {
    const result = await send(text, values)
    return Array.isArray(result) ? (result as Row[]) : ((member(result, 'rows') ?? []) as Row[])
  }
}

function kysely(tx: unknown, sql: string, parameters: readonly unknown[]): Promise<unknown> {
  const plain: unknown = (tx as { withoutPlugins(): unknown }).withoutPlugins()
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  const compiled = { sql, parameters: [...parameters], query, queryId: { queryId: 'effectively-once' } }
  return (plain as { executeQuery: Method }).executeQuery(compiled)
}

function drizzle(session: unknown, sql: string, params: readonly unknown[]): Promise<unknown> {
  const prepared = (session as { prepareQuery(...args: unknown[]): { execute: Method } }).prepareQuery(
    { sql, params: [...params] },
    undefined,
    undefined,
    false,
  )
  return prepared.execute()
}

function member(value: unknown, name: string): unknown {
  return (value as Record<string, unknown> | null | undefined)?.[name]
}

function method(value: unknown, name: string): Method | undefined {
  const found = member(value, name)
  return typeof found === 'function' ? (found.bind(value) as Method) : undefined
}
