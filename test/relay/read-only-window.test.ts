import pg from 'pg'
import { expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { until } from './world.ts'

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
})
