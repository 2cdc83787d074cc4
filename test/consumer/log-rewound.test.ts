import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, type Signal } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { until } from '../relay/world.ts'
import { events, logOf, PARTITION } from '../support/memory-log.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

describePostgres('a log, and a database that was put back', () => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  it.each([
    ['', false],
    [', by who has only begun', true],
  ])(
    'what the database has forgotten is read again, once%s',
    async (_, begunAnew) => {
      const database = await freshDatabase()
      ends.push(() => database.drop())
      const pool = new pg.Pool({ connectionString: database.url, max: 10 })
      pool.on('error', () => {})
      ends.push(() => pool.end())
      const signals: Signal[] = []
      const observe = (signal: Signal): void => void signals.push(signal)
      const once = effectivelyOnce({
        namespace: 'log',
        store: pgStore(pool),
        events,
        guard: 'off',
        sweep: false,
        observe,
      })
      ends.push(() => once.close())
      await once.migrate()
      await pool.query('create table effects (n int4 not null)')
      const entries = numbers(0, 20)
      const reads: bigint[] = []
      const consumer = once.consumer(
        'c',
        { from: logOf(entries, reads) },
        {
          'step.made': async ({ data }, { tx }) => void (await tx.query('insert into effects values ($1)', [data.n])),
        },
      )
      await consumer.start()
      ends.push(() => consumer.stop())
      const applied = async (): Promise<number[]> =>
        (await pool.query<{ n: number }>('select n from effects order by n')).rows.map(({ n }) => n)
      const reach = (count: number): Promise<void> => until(async () => (await applied()).length >= count, 20_000)
      const position = async (): Promise<number> =>
        Number(
          (await pool.query(`select next from effectively_once.position where partition = $1`, [PARTITION])).rows[0]
            ?.next,
        )
      await until(async () => (await position()) === 20, 20_000)
      await pool.query('create table kept_inbox as table effectively_once.inbox')
      entries.push(...numbers(20, 40))
      await until(async () => (await position()) === 40, 20_000)
      if (begunAnew) {
        await consumer.stop()
        reads.length = 0
        await consumer.start()
        await until(() => reads.includes(40n), 20_000)
      }

      await pool.query(`begin; lock table effectively_once.position, effectively_once.inbox in exclusive mode;
      delete from effects where n >= 20;
      delete from effectively_once.inbox where id not in (select id from kept_inbox);
      update effectively_once.position set next = 20 where partition = '${PARTITION}'; commit`)
      entries.push(...numbers(40, 60))
      await reach(60).catch(() => {})
      expect(await applied()).toEqual(numbers(0, 60))
      await until(async () => (await position()) === 60, 20_000)
      expect(signals.some((of) => of.kind === 'troubled' && String(of.error).includes('gone back'))).toBe(true)
      // It may have read on before it looked.
      const partitions = [{ partition: PARTITION, from: expect.stringMatching(/^[46]0$/), to: '20' }]
      expect(await once.redrive.audit()).toMatchObject([
        { action: 'rewound', detail: { consumer: 'c', source: 'log', partitions } },
      ])
    },
    90_000,
  )

  it('nobody passes what the database has forgotten since it was settled', async () => {
    const database = await freshDatabase()
    ends.push(() => database.drop())
    const pool = new pg.Pool({ connectionString: database.url, max: 10 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const once = effectivelyOnce({ namespace: 'log', store: pgStore(pool), events, guard: 'off', sweep: false })
    ends.push(() => once.close())
    await once.migrate()
    await pool.query('create table effects (n int4 not null)')
    const entries: number[] = [0, 1, 2, 5, 8]
    let open = (): void => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    const consumer = once.consumer(
      'c',
      { from: logOf(entries), batch: 1, concurrency: 3 },
      {
        'step.made': async ({ data }, { tx }) => {
          await tx.query('insert into effects values ($1)', [data.n])
          if (data.n === 0) await gate
        },
      },
    )
    await consumer.start()
    ends.push(() => consumer.stop())
    const applied = async (): Promise<number[]> =>
      (await pool.query<{ n: number }>('select n from effects order by n')).rows.map(({ n }) => n)
    await until(async () => (await applied()).length === 4, 20_000)
    // The first is still under way when the others are forgotten.
    await pool.query(`begin; delete from effects; delete from effectively_once.inbox; commit`)
    open()
    await until(async () => (await applied()).length === 5, 20_000).catch(() => {})
    expect(await applied()).toEqual([0, 1, 2, 5, 8])
  }, 60_000)
})
