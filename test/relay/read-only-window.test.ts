import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { expect, it } from 'vitest'
import { effectivelyOnce, inProcessSink, type Signal, type Store } from '../../src/index.ts'
import { kyselyStore } from '../../src/store/postgres/kysely.ts'
import { postgresJsStore } from '../../src/store/postgres/postgres-js.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { events, until } from './world.ts'

/** How long a connection of a client lives that we cannot end. */
const LIFETIME_S = 4

describePostgres('connections to a server that accepts no writes', () => {
  const here = freshWorld()

  /** As in a failover: for a moment, new connections reach a server that accepts no writes, and they stay open. */
  async function readOnlyWindow(): Promise<void> {
    const client = new pg.Client({ connectionString: here.url })
    await client.connect()
    try {
      const { rows } = await client.query<{ name: string }>('select current_database() as name')
      const database = rows[0]?.name
      await client.query(`alter database ${database} set default_transaction_read_only = on`)
      await client.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()',
        [database],
      )
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      await client.query('set default_transaction_read_only = off')
      await client.query(`alter database ${database} reset default_transaction_read_only`)
    } finally {
      await client.end()
    }
  }

  it('are replaced, so operations and relays go on', async () => {
    const { world } = here
    const sent: unknown[] = []
    const to = inProcessSink(({ data }) => void sent.push(data))
    const relay = await world.once.relay({ to, lease: '3s' }).start()
    await world.make('a')
    await until(() => sent.length === 1)
    const window = readOnlyWindow()
    const over = new AbortController()
    let made = 1
    // A busy pool has no idle connections to close.
    const making = (async () => {
      while (!over.signal.aborted) {
        await world.make('a').then(
          () => made++,
          () => new Promise((resolve) => setTimeout(resolve, 20)),
        )
      }
    })()
    await window
    const before = made
    try {
      await until(() => made > before + 10, 5_000)
      await until(() => sent.length > before + 10, 5_000)
    } finally {
      over.abort()
      await making
      await relay.stop({ within: '1s' })
    }
    expect(made).toBeGreaterThan(before)
  }, 30_000)

  /** The handlers here do not use `tx`, so its type does not matter. */
  const clients: Record<string, (url: string) => { store: Store<unknown>; end: () => Promise<void> }> = {
    'postgres.js': (url: string) => {
      const sql = postgres(url, { max: 4, max_lifetime: LIFETIME_S, onnotice: () => {} })
      return { store: postgresJsStore(sql), end: () => sql.end({ timeout: 1 }) }
    },
    'Kysely on a pool of node-postgres': (url: string) => {
      const pool = new pg.Pool({ connectionString: url, max: 4, maxLifetimeSeconds: LIFETIME_S })
      pool.on('error', () => {})
      pool.on('connect', (client) => client.on('error', () => {}))
      const db = new Kysely({ dialect: new PostgresDialect({ pool }) })
      const store = kyselyStore(db, { dialect: 'postgres' }) as unknown as Store<unknown>
      return { store, end: () => db.destroy() }
    },
  }

  it.each(Object.entries(clients))(
    'are told, and replaced at the end of their lifetime: %s',
    async (_, open) => {
      const { store, end } = open(here.url)
      const signals: Signal[] = []
      const observe = (signal: Signal): void => void signals.push(signal)
      const once = effectivelyOnce({ namespace: 'window', store, events, guard: 'off', sweep: false, observe })
      const sent: unknown[] = []
      const errors: unknown[] = []
      let made = 0
      const make = (): Promise<unknown> =>
        once
          .run({ scope: 's', key: `${made}`, input: null }, ({ publish }) =>
            publish('step.made', { aggregate: 'a', n: made }),
          )
          .then(
            () => made++,
            (error: unknown) => errors.push(error),
          )
      const to = inProcessSink(({ data }) => void sent.push(data))
      const relay = await once.relay({ to, lease: '3s' }).start()
      try {
        await make()
        await until(() => sent.length === 1)
        await readOnlyWindow()
        await until(async () => {
          await make()
          return made > 10 && sent.length > 10
        }, 20_000)
      } finally {
        await relay.stop({ within: '1s' })
        await once.close()
        await end()
      }
      const refused = { code: 'ONCE_STORE_UNAVAILABLE', message: expect.stringContaining('accepts no writes') }
      expect(errors).toContainEqual(expect.objectContaining(refused))
      const troubled = { kind: 'troubled', task: 'relay', error: expect.objectContaining(refused) }
      expect(signals).toContainEqual(expect.objectContaining(troubled))
    },
    60_000,
  )
})
