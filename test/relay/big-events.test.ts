import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { expect, it } from 'vitest'
import { effectivelyOnce, event, type SqlStore } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'

const EVENTS = 2_000
const BYTES = 200_000
const events = { 'page.made': event<{ n: number; text: string }>(({ n }) => `p${n % 100}`) }

async function fill<Tx>(store: SqlStore<Tx>): Promise<void> {
  const once = effectivelyOnce({ namespace: 'big', store, events, guard: 'off', sweep: false })
  await once.migrate()
  const random = randomBytes(BYTES)
    .toString('latin1')
    .replaceAll(/[^ -~]/g, 'x')
  for (let n = 0; n < EVENTS; n += 20) {
    await once.run({ scope: 's', key: `${n}`, input: n }, async ({ publish }) => {
      for (let i = n; i < n + 20; i++) {
        // What the database can make small, too: it is large again when it is read.
        const text = i % 2 === 0 ? 'x'.repeat(BYTES) : random
        await publish('page.made', { n: i, text })
      }
    })
  }
}

/** A process with a small heap. */
async function drained(way: string, kind: string, place: string): Promise<number> {
  const script = fileURLToPath(new URL('./big-events-process.ts', import.meta.url))
  const args = ['--max-old-space-size=256', '--import', 'tsx', script, way, kind, place]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 150_000 })
  return Number(stdout)
}

const WAYS = ['relay', 'consumer']

describePostgres('2,000 events of 200 KB and a heap of 256 MB', (database) => {
  it('are drained', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    await fill(pgStore(pool))
    await pool.end()
    for (const way of WAYS) expect([way, await drained(way, 'postgres', database.url)]).toEqual([way, EVENTS])
  }, 400_000)
})

describeSqlite('2,000 events of 200 KB and a heap of 256 MB', (lab) => {
  it('are drained', async () => {
    const file = lab.file()
    const store = lab.bare({ file })
    await fill(store)
    await store.close()
    for (const way of WAYS) expect([way, await drained(way, 'sqlite', file)]).toEqual([way, EVENTS])
  }, 400_000)
})
