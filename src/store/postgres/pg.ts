import { onceError } from '../../errors.ts'
import type { OnceError } from '../../errors.ts'
import type { Row, SqlStore } from '../store.ts'
import { MAINTENANCE_WITHIN_MS, SIDE_CONNECTION_WITHIN_MS, STATEMENT_WITHIN_MS } from '../../limits.ts'
import { hasMethods, requireThat } from './revocable-handle.ts'
import type { BeginOptions, PgDriver, PgStatement } from './driver/driver.ts'
import { SideConnection } from './driver/side-connection.ts'
import type { PgPool, PgTx, PoolClientLike, PoolLike } from './driver/client.ts'
import { PgTransaction } from './driver/connection.ts'
import { clientBehind } from './driver/facade.ts'
import { isNamesFault } from './driver/context.ts'
import type { PgDriverContext } from './driver/context.ts'
import { FrequentStatements } from './driver/user-statements.ts'
import { DeferredRollbacks } from './driver/deferred-rollbacks.ts'
import { linkOf } from './driver/link.ts'
import type { PgLink } from './driver/link.ts'
import { BEGIN, ROLLBACK, rowsOf } from './driver/pipeline.ts'
import { pgListen } from './driver/listen.ts'
import { unwatched, watchPool } from './driver/watch.ts'
import { Watchdog } from './driver/watchdog.ts'
import { isConnectionLost } from './driver/sqlstate.ts'
import { postgresStore } from './store.ts'
import type { PostgresStoreOptions } from './store.ts'

export type { PostgresStoreOptions } from './store.ts'
export type { PgTx, PoolClientLike, PoolLike } from './driver/client.ts'

/**
 * The store on node-postgres. `tx` in a handler is the pool's own client, without `release`, `connect` and `end`.
 *
 * @example
 * const once = effectivelyOnce({ namespace: 'payments', store: pgStore(pool) })
 */
export function pgStore<C extends PoolClientLike>(
  pool: PoolLike<C>,
  options?: PostgresStoreOptions,
): SqlStore<PgTx<C>> {
  return postgresStore(pgDriver(pool), options)
}

export interface PgDriverOptions {
  /** Called for every round trip to the server, with the number of its statements, including begin and commit. */
  readonly onTrip?: (statements: number) => void
}

export interface PgPoolDriver<Tx> extends PgDriver<Tx> {
  /** False after a pooler has lost a prepared statement. */
  readonly prepared: boolean
}

/**
 * node-postgres. A group of statements goes out as one write with one Sync, through pg's own queue, so that a handler's
 * own queries on the same client keep their order.
 */
export function pgDriver<C extends PoolClientLike>(
  pool: PoolLike<C>,
  options: PgDriverOptions = {},
): PgPoolDriver<PgTx<C>> {
  requireThat(
    hasMethods(pool, ['connect', 'query']) && !('connectionParameters' in pool),
    'pgStore(pool) needs a pg.Pool: on a single client, other queries would join the transaction',
  )
  const root = pool as unknown as PgPool
  const watchdog = new Watchdog()
  const context: PgDriverContext = {
    prepared: true,
    frequent: new FrequentStatements(),
    onTrip: options.onTrip,
    watchdog,
    silentAt: -Infinity,
  }
  const pipelined = !isNative(root)
  const aside = new SideConnection(root, context)
  const sideConnections: SideConnection[] = []
  const left = new DeferredRollbacks(root, context)

  async function query(statement: PgStatement): Promise<readonly Row[]> {
    // Statements without a name are rare maintenance, which may take longer.
    const link = await checkOut(root, context, statement.name === '' ? MAINTENANCE_WITHIN_MS : STATEMENT_WITHIN_MS)
    const named = context.prepared
    let outcome = await link.run([statement], context)
    if (named && isNamesFault(context, outcome)) outcome = await link.run([statement], context)
    link.release(outcome.failedAt >= 0 && isConnectionLost(outcome.error))
    return rowsOf(outcome)
  }

  return {
    name: 'pg',
    pipelined,
    // The native client cannot send bytes.
    parameters: pipelined ? 'plain' : 'encoded',
    get prepared() {
      return context.prepared
    },
    watch: watchPool(root),

    query,

    aside: (statement, withinMs = SIDE_CONNECTION_WITHIN_MS) =>
      root.Client ? aside.query(statement, withinMs) : query(statement),

    async begin(first: PgStatement, { withinMs = MAINTENANCE_WITHIN_MS }: BeginOptions = {}) {
      const taken = left.take()
      const link = taken ?? (await checkOut(root, context, withinMs))
      link.withinMs = withinMs
      const opening = taken ? [ROLLBACK, BEGIN, first] : [BEGIN, first]
      const named = context.prepared
      let outcome = await link.run(opening, context)
      const connection = new PgTransaction<PgTx<C>>(link, context, { joined: false, left })
      if (outcome.failedAt < 0) return { connection, rows: outcome.rows.at(-1) ?? [] }
      if (named && isNamesFault(context, outcome) && (await link.run([ROLLBACK], context)).failedAt < 0) {
        outcome = await link.run(opening, context)
        if (outcome.failedAt < 0) return { connection, rows: outcome.rows.at(-1) ?? [] }
      }
      await connection.rollback()
      throw outcome.error
    },

    join(tx) {
      if (typeof (tx as { query?: unknown } | null | undefined)?.query !== 'function') {
        throw onceError('ONCE_TX_REQUIRED', { detail: 'join() needs the client that ran BEGIN' })
      }
      return new PgTransaction<PgTx<C>>(linkOf(clientBehind(tx)), context, { joined: true })
    },

    separateConnection() {
      if (!root.Client) return { query }
      const separate = new SideConnection(root, context)
      sideConnections.push(separate)
      return separate
    },

    listen: (params) => pgListen(root, params),

    close: async () => void (await Promise.all([aside, ...sideConnections].map((connection) => connection.close()))),
  }
}

async function checkOut(pool: PgPool, context: PgDriverContext, withinMs: number): Promise<PgLink> {
  for (;;) {
    const link = await connected(pool, context.watchdog)
    link.withinMs = withinMs
    // Discard a doubtful connection. The pool opens a new one in its place.
    if (!link.isDoubtful(context)) return link
    link.discard()
  }
}

function connected(pool: PgPool, watchdog: Watchdog): Promise<PgLink> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const wait = watchdog.watch(STATEMENT_WITHIN_MS, () => {
      isLate = true
      reject(unavailable(pool, new Error(`the pool returned no connection within ${STATEMENT_WITHIN_MS} ms`)))
    })
    unwatched(() => {
      pool.connect((error, client) => {
        watchdog.done(wait)
        if (isLate) return client?.release?.()
        if (error || !client) return reject(unavailable(pool, error))
        const link = linkOf(client)
        link.hold()
        resolve(link)
      })
    })
  })
}

function unavailable(pool: PgPool, cause: unknown): OnceError {
  return onceError('ONCE_STORE_UNAVAILABLE', { detail: whyNoConnection(pool, cause), cause })
}

function whyNoConnection(pool: PgPool, cause: unknown): string {
  if (pool.ending) return 'the pool was closed'
  const message = cause instanceof Error ? cause.message : String(cause)
  const full = pool.totalCount >= (pool.options?.max ?? Infinity) && pool.idleCount === 0
  return full && /timeout/i.test(message)
    ? `no connection came free within ${pool.options?.connectionTimeoutMillis ?? 0} ms: all ${pool.totalCount} are in use`
    : `no connection to the database: ${message}`
}

/** pg-native cannot group statements, and sends them one by one. Only its clients have `isConnected()`. */
function isNative(pool: PgPool): boolean {
  const prototype = pool.Client?.prototype as { isConnected?: unknown } | undefined
  return typeof prototype?.isConnected === 'function'
}
