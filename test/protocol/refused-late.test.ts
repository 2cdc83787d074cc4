import pg from 'pg'
import { expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'

const ROLLBACK_LATE_MS = 1_500

interface Stream {
  write(chunk: string | Uint8Array, ...rest: unknown[]): boolean
}

/** What this client sends from its next rollback on leaves late, in order. */
function delayRollbacks(client: pg.PoolClient): void {
  const { stream } = (client as unknown as { connection: { stream: Stream } }).connection
  const write = stream.write.bind(stream)
  let behind: Promise<unknown> | undefined
  stream.write = (chunk, ...rest) => {
    if (Buffer.from(chunk).toString('latin1').includes('rollback')) {
      behind = new Promise((resolve) => setTimeout(resolve, ROLLBACK_LATE_MS))
    }
    if (!behind) return write(chunk, ...rest)
    behind = behind.then(() => write(chunk, ...rest))
    return true
  }
}

describePostgres('a request that is refused', (database) => {
  it('holds no lock of its key when its caller is told', async () => {
    const settings = { namespace: 'test', guard: 'off', sweep: false } as const
    const others = new pg.Pool({ connectionString: database.url })
    const other = effectivelyOnce({ ...settings, store: pgStore(others) })
    const pool = new pg.Pool({ connectionString: database.url })
    pool.on('error', () => {})
    const once = effectivelyOnce({ ...settings, store: pgStore(pool) })
    await once.migrate()
    const verifier = new pg.Client({ connectionString: database.url })
    await verifier.connect()
    const leases = async (): Promise<number | null> =>
      (await verifier.query('select 1 from effectively_once.record where lease_until > now()')).rowCount
    const ask = { scope: 'u', key: 'mixed', input: 1 }
    let fail = (): void => {}
    const failed = new Promise<never>((_, reject) => (fail = () => reject(new Error('refused outside'))))
    const begun = new Promise<void>((resolve) => {
      const leased = other.run({ ...ask, lease: '10s' }, async () => {
        resolve()
        return failed
      })
      leased.catch(() => {})
    })
    await begun
    pool.on('connect', delayRollbacks)
    // The clients that the pool has already are replaced.
    const idle = await Promise.all(Array.from({ length: pool.idleCount }, () => pool.connect()))
    for (const client of idle) client.release(true)
    expect(await outcomeOf(once.run(ask, async () => 'ran'))).toBe('ONCE_IN_FLIGHT')
    fail()
    await failed.catch(() => {})
    await expect.poll(() => leases(), { interval: 10 }).toBe(0)
    expect(await outcomeOf(once.run(ask, async () => 'ran'))).toBe('value')
    await verifier.end()
    await Promise.all([once.close(), other.close()])
    await Promise.all([pool.end(), others.end()])
  })
})
