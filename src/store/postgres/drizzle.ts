import type { Row, SqlStore } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import { DrizzleCheckout } from './drizzle-checkout.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { hasMethods, revocableHandle, requireThat, type RevocableHandle } from './revocable-handle.ts'
import { withSnakeCase } from './postgres-js.ts'
import { guardedSql, unlessLost, type Life, type Sql } from './postgres-js-handle.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

/** The part of Drizzle that we use, as a structural type. `Tx` is its `PgTransaction`, with the user's own schema. */
export interface DrizzleDatabase<Tx> {
  transaction<T>(run: (tx: Tx) => Promise<T>, config?: { isolationLevel?: 'read committed' }): Promise<T>
}

/**
 * Drizzle on node-postgres (a pool), postgres.js or PGlite.
 *
 * @example
 * const db = drizzle(pool, { schema })
 * const once = effectivelyOnce({ namespace: 'payments', store: drizzleStore(db) })
 */
export function drizzleStore<Tx>(db: DrizzleDatabase<Tx>, options?: PostgresStoreOptions): SqlStore<Tx> {
  return postgresStore(drizzleDriver(db), options)
}

export function drizzleDriver<Tx>(db: DrizzleDatabase<Tx>): PgDriver<Tx> {
  const root = db as unknown as Drizzle | undefined
  requireThat(
    hasMethods(db, ['transaction']) && hasMethods(root?.session, ['prepareQuery']) && isPostgres(root),
    'drizzleStore(db) needs a PostgreSQL database that drizzle(...) returned',
  )
  const client = root?.session.client
  requireThat(
    !isBareClient(client),
    'drizzleStore(db) needs a Drizzle on a pool: on a single client, other queries would join the transaction',
  )
  return callbackDriver<Tx>({
    name: 'drizzle',
    single: hasMethods(client, ['execProtocol']),
    transaction(callback) {
      const life: Life = { lost: undefined }
      const checkout = new DrizzleCheckout()
      const outer = checkout.on(db, root as Drizzle).transaction((tx) => {
        checkout.begun = true
        return unlessLost(life, callback(surviving(tx as Drizzle, life) as Tx))
      }, READ_COMMITTED)
      outer.then(
        () => checkout.end(),
        (error: unknown) => {
          life.lost ??= error
          checkout.end()
        },
      )
      return outer
    },
    query: (statement) => send(root as Drizzle, statement),
    queryIn: (tx, statement) => send(tx as Drizzle, statement),
    revocable(tx, joined, takeTurn) {
      const held = revocableHandle(takeTurn)
      return { tx: revocable(tx as Drizzle, (tx as Drizzle).session.client, held, joined) as Tx, revoke: held.revoke }
    },
    isTransaction: (tx) => hasMethods(tx, ['transaction', 'rollback']) && isPostgres(tx as Drizzle),
  })
}

const READ_COMMITTED = { isolationLevel: 'read committed' } as const

interface Drizzle {
  readonly session: Session
  readonly dialect: object
  readonly schema: unknown
  readonly nestedIndex: number
  transaction: unknown
  readonly constructor: new (dialect: object, session: Session, schema: unknown, nestedIndex: number) => Drizzle
}

interface Session {
  readonly client: unknown
  prepareQuery(query: { sql: string; params: unknown[] }, ...rest: unknown[]): Prepared
}

type Prepared = Record<'execute' | 'all', (...args: unknown[]) => Promise<unknown>>

async function send({ session }: Drizzle, { name, text, values }: PgStatement): Promise<readonly Row[]> {
  const query = { sql: text, params: [...values] }
  const result = await session.prepareQuery(query, undefined, name === '' ? undefined : name, false).execute()
  return Array.isArray(result) ? (result as Row[]).map(withSnakeCase) : (result as { rows: Row[] }).rows
}

/** The same transaction on another session. Drizzle creates nested transactions in the same way. */
function on(tx: Drizzle, session: object): Drizzle {
  const layered: Session = Object.create(tx.session, Object.getOwnPropertyDescriptors(session))
  return new tx.constructor(tx.dialect, layered, tx.schema, tx.nestedIndex)
}

/** On postgres.js, our own statements must not reach a lost connection either. */
function surviving(tx: Drizzle, life: Life): Drizzle {
  if (!isPostgresJs(tx.session.client)) return tx
  return on(tx, { client: guardedSql(tx.session.client, { refusal: () => life.lost, life }) })
}

function revocable(tx: Drizzle, client: unknown, held: RevocableHandle, joined: boolean): Drizzle {
  const sql = isPostgresJs(client)
    ? guardedSql(client, { refusal: (text) => held.refusal(text), nativeSavepoints: joined })
    : undefined
  const handle = on(tx, {
    // The client checks the handle again: after the check in `prepareQuery`, a query may have waited for Drizzle's
    // cache.
    client: sql ?? revocableClient(client as object, held),
    prepareQuery(this: Session, query: { sql: string; params: unknown[] }, ...rest: unknown[]) {
      const prepared = tx.session.prepareQuery.call(this, query, ...rest)
      for (const verb of ['execute', 'all'] as const) {
        const run = prepared[verb].bind(prepared)
        prepared[verb] = (...args) =>
          held.send(async () => {
            const refusal = held.refusal(query.sql)
            if (refusal) throw refusal
            return run(...args)
          })
      }
      return prepared
    },
  })
  if (sql) {
    handle.transaction = (work: (tx: Drizzle) => unknown) =>
      sql.savepoint((nested: Sql) => work(revocable(tx, nested, held, joined)))
  }
  return handle
}

function revocableClient(client: object, held: RevocableHandle): object {
  return new Proxy(client, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const refusal = held.refusal()
        return refusal ? Promise.reject(refusal) : (Reflect.apply(value, target, args) as unknown)
      }
    },
  })
}

function isPostgresJs(client: unknown): client is Sql {
  return typeof client === 'function' && hasMethods(client, ['unsafe', 'savepoint'])
}

/** A single pg Client, which Drizzle uses without a pool. */
function isBareClient(client: unknown): boolean {
  return hasMethods(client, ['query', 'connect', 'end']) && !('totalCount' in (client as object)) && !isPool(client)
}

function isPool(client: unknown): boolean {
  return (client as object).constructor.name.includes('Pool')
}

function isPostgres(db: Drizzle | undefined): boolean {
  const kind: unknown = Reflect.get(db?.dialect?.constructor ?? {}, Symbol.for('drizzle:entityKind'))
  return kind === 'PgDialect'
}
