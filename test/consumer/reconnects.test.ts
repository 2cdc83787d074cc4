import { once as onceEvent } from 'node:events'
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net'
import pg from 'pg'
import { expect, it, onTestFinished, vi } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { describePostgres } from '../support/postgres.ts'

const AWAY_MS = 4_000
/** Ten times as many came before anybody waited: 47 in a second. */
const ATTEMPTS_MAX = 40

/** The way to PostgreSQL, which can be away: connections are refused as fast as they come, and counted. */
async function doorTo(url: string) {
  const target = Number(new URL(url).port)
  const open = new Set<Socket>()
  let away = false
  let attempts = 0
  const server = createServer((near) => {
    attempts++
    if (away) {
      near.destroy()
      return
    }
    const far = createConnection(target, '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one.on('error', () => {}).on('close', () => other.destroy())
      one.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    attempts: () => attempts,
    go() {
      away = true
      attempts = 0
      for (const socket of open) socket.destroy()
    },
    come: () => (away = false),
    close: () => server.close(),
  }
}

describePostgres('a consumer that was busy when PostgreSQL went away', (database) => {
  it('tries again ever more rarely, and works again soon after', async () => {
    const door = await doorTo(database.url)
    const pool = new pg.Pool({ connectionString: door.url, max: 10 })
    pool.on('error', () => {})
    const once = effectivelyOnce({ namespace: 'away', store: pgStore(pool), guard: 'off' })
    onTestFinished(async () => {
      await once.close()
      await pool.end()
      door.close()
    })
    await once.migrate()
    await pool.query('drop table if exists seen; create table seen (id text)')
    const broker = memoryBroker()
    const send = (from: number, to: number): void => {
      for (let n = from; n < to; n++) broker.publish({ id: `m${n}` })
    }
    let handled = 0
    const consumer = once.consumer(
      'steps',
      { from: broker.source, batch: 1, deadline: '5s' },
      {
        'step.made': async ({ id }, { tx }) => {
          handled++
          await tx.query('insert into seen values ($1)', [id])
          await new Promise((resolve) => setTimeout(resolve, 20))
        },
      },
    )
    await consumer.start()
    send(0, 300)
    await vi.waitFor(() => expect(handled).toBeGreaterThan(20), 5_000)
    door.go()
    // What comes meanwhile is no reason to try sooner.
    for (let ms = 0; ms < AWAY_MS; ms += 100) {
      send(300 + ms / 100, 301 + ms / 100)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    expect(door.attempts()).toBeLessThan(ATTEMPTS_MAX)
    door.come()
    await vi.waitFor(
      async () =>
        expect((await pool.query('select count(distinct id)::int n, count(*)::int all from seen')).rows).toEqual([
          { n: 340, all: 340 },
        ]),
      { timeout: 20_000, interval: 250 },
    )
  })
})
