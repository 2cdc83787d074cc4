import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { doctor, type Finding } from '../../src/cli/doctor.ts'
import { effectivelyOnce, event, type Signal } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { freshDatabase, describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { query } from '../support/sqlite-data.ts'
import { until } from './world.ts'

const AGGREGATES = 7
const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % AGGREGATES}`) }
/** Of the relay, and of the consumer. */
const NONE = [[], []]
const ends: (() => unknown)[] = []

/** A database that can be put back, as a standby that lagged or a backup would leave it. */
interface Rewindable {
  readonly url: string
  readonly store: SqlStore<never>
  keep(): Promise<void>
  rewind(): Promise<void>
}

function suite(open: () => Promise<Rewindable>): void {
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  async function world() {
    const { url, store, keep, rewind } = await open()
    const signals: Signal[] = []
    const observe = (signal: Signal): void => void signals.push(signal)
    const once = effectivelyOnce({ namespace: 'back', store, events, guard: 'off', sweep: false, observe })
    ends.push(() => once.close())
    await once.migrate()
    const publish = (from: number, to: number): Promise<unknown> =>
      once.run({ scope: 's', key: `${Math.random()}`, input: from }, async ({ publish: send }) => {
        for (let n = from; n < to; n++) await send('step.made', { n })
      })
    const sent: number[] = []
    const applied: number[] = []
    let gate: Promise<unknown> = Promise.resolve()
    const take = async (into: number[], data: unknown): Promise<void> => {
      await gate
      into.push((data as { n: number }).n)
    }
    const sink = inProcessSink(({ data }) => take(sent, data), { name: 's' })
    const relay = await once.relay({ to: sink, lease: '3s' }).start()
    ends.push(() => relay.stop())
    const on = { 'step.made': ({ data }: { data: { n: number } }) => take(applied, data) }
    const consumer = await once.consumer('c', { from: once.outbox, concurrency: 8 }, on).start()
    ends.push(() => consumer.stop())
    const left = (from: number, to: number): number[][] => [sent, applied].map((seen) => missing(seen, from, to))
    const reach = (from: number, to: number): Promise<void> =>
      until(() => left(from, to).flat().length === 0, 25_000).catch(() => {})
    const shut = (): (() => void) => {
      let release = (): void => undefined
      gate = new Promise<void>((resolve) => (release = resolve))
      return release
    }
    return { url, once, relay, keep, rewind, publish, reach, left, shut, signals }
  }

  it.each([20, 200])(
    'events made after it was put back are sent, and told: %i of them',
    async (more) => {
      const { url, once, keep, rewind, publish, reach, left, signals } = await world()
      await publish(0, 20)
      await reach(0, 20)
      await pause()
      await keep()
      await publish(20, 80)
      await reach(20, 80)
      await pause()
      await rewind()
      await publish(100, 100 + more)
      await reach(100, 100 + more)
      expect(left(100, 100 + more)).toEqual(NONE)
      await publish(400, 420)
      await reach(400, 420)
      expect(left(400, 420)).toEqual(NONE)
      const told = signals.flatMap((signal) => (signal.kind === 'troubled' ? String(signal.error) : []))
      expect(told.filter((text) => text.includes('gone back')).length).toBeGreaterThan(0)
      const written = (await once.redrive.audit()).filter(({ action }) => action === 'rewound')
      expect(written.map(({ detail }) => detail['destination'])).toContain('s')
      for (const { detail } of written) {
        for (const { from, to } of detail['partitions'] as { from: string; to: string }[])
          expect(Number(from)).toBeGreaterThan(Number(to))
      }
      expect(await rewoundIn(url)).toContainEqual(
        expect.stringMatching(/ 's' went back to an earlier position in \d+ \(\d+ → \d+\)/),
      )
    },
    60_000,
  )

  it('a lease that it has forgotten is told, too', async () => {
    const { once, relay, keep, rewind, publish, reach, signals } = await world()
    await publish(0, 20)
    await reach(0, 20)
    await pause()
    await keep()
    await relay.stop()
    await relay.start()
    await publish(20, 80)
    await reach(20, 80)
    await pause()
    await rewind()
    const isTold = async (): Promise<boolean> =>
      (await once.redrive.audit()).some(({ action, detail }) => action === 'rewound' && detail['destination'] === 's')
    await until(isTold, 10_000).catch(() => {})
    expect(await isTold()).toBe(true)
    const told = signals.flatMap((signal) => (signal.kind === 'troubled' ? String(signal.error) : []))
    expect(told).toContainEqual(expect.stringContaining('s: the database has gone back'))
    await publish(100, 120)
    await reach(100, 120)
  }, 60_000)

  it('what was read before and acknowledged after it passes nothing that was made since', async () => {
    const { keep, rewind, publish, reach, left, shut } = await world()
    await publish(0, 20)
    await reach(0, 20)
    await pause()
    await keep()
    const release = shut()
    await publish(20, 80)
    await pause()
    await rewind()
    await publish(100, 160)
    release()
    await reach(100, 160)
    expect(left(100, 160)).toEqual(NONE)
  }, 60_000)
}

/** What doctor tells of it. */
async function rewoundIn(url: string): Promise<string[]> {
  const given = { command: 'doctor', operand: undefined, values: {}, json: true, url, schema: undefined }
  const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }
  const { findings } = (await doctor(given, told)).data as { findings: readonly Finding[] }
  return findings.flatMap(({ code, line }) => (code === 'rewound' ? line : []))
}

/** Until whatever was decided is written down. */
function pause(): Promise<unknown> {
  return new Promise((resolve) => setTimeout(resolve, 500))
}

function missing(seen: readonly number[], from: number, to: number): number[] {
  const known = new Set(seen)
  return Array.from({ length: to - from }, (_, i) => from + i).filter((n) => !known.has(n))
}

const TABLES = ['ack', 'shard', 'held', 'relay'] as const

describePostgres('a database that was put back, PostgreSQL', () =>
  suite(async () => {
    const database = await freshDatabase()
    ends.push(() => database.drop())
    const pool = new pg.Pool({ connectionString: database.url, max: 10 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    return {
      url: database.url,
      store: pgStore(pool) as never,
      async keep() {
        const copies = TABLES.map((table) => `create table kept_${table} as table effectively_once.${table};`)
        await pool.query(`begin; ${copies.join(' ')}
          create table kept_event as select id from effectively_once.event;
          create table kept_seq as select last_value from effectively_once.event_seq; commit`)
      },
      async rewind() {
        const back = TABLES.map(
          (table) =>
            `delete from effectively_once.${table}; insert into effectively_once.${table} table kept_${table};`,
        )
        await pool.query(`begin; lock table effectively_once.ack, effectively_once.shard in exclusive mode; ${back.join(' ')}
          delete from effectively_once.event where id not in (select id from kept_event);
          select setval('effectively_once.event_seq', (select last_value from kept_seq)); commit`)
      },
    }
  }),
)

describeSqlite('a database that was put back, SQLite', (lab) =>
  suite(async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    const beside = lab.bare({ file })
    const all = async (statements: readonly string[]): Promise<void> => {
      for (const statement of statements) await query(beside, statement)
    }
    return {
      url: file,
      store: store as never,
      keep: () =>
        all([
          ...TABLES.map((table) => `create table kept_${table} as select * from effectively_once_${table}`),
          'create table kept_event as select id from effectively_once_event',
          'create table kept_seq as select name, seq from sqlite_sequence',
        ]),
      rewind: () =>
        all([
          'delete from effectively_once_event where id not in (select id from kept_event)',
          'update sqlite_sequence set seq = (select k.seq from kept_seq k where k.name = sqlite_sequence.name)',
          ...TABLES.flatMap((table) => [
            `delete from effectively_once_${table}`,
            `insert or replace into effectively_once_${table} select * from kept_${table}`,
          ]),
        ]),
    }
  }),
)
