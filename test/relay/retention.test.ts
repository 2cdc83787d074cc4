import { expect, it } from 'vitest'
import { inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { Swept } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { committedOf, judge, until, type Step } from './world.ts'

describePostgres('the segments of the outbox', () => {
  const here = freshWorld()

  const sweep = (resendForMs: number): Promise<Swept> =>
    pgStore(here.world.pool).retention.sweep({ limit: 10_000, replayForMs: 60_000, resendForMs })
  const one = async <T>(sql: string): Promise<T> =>
    Object.values((await here.world.pool.query(sql)).rows[0] ?? {})[0] as T
  const stored = (): Promise<number> => one('select count(*)::int from effectively_once.event')
  const segment = (): Promise<number> => one('select max(segment)::int from effectively_once.event')

  it('are turned over under way: nothing lost, nothing out of order, and what was sent is dropped', async () => {
    const seen: Step[] = []
    const sink = inProcessSink((event) => void seen.push(event.data as Step), { name: 'all' })
    const relays = [here.world.once.relay({ to: sink, lease: '2s' }), here.world.once.relay({ to: sink, lease: '2s' })]
    await Promise.all(relays.map((relay) => relay.start()))
    let made = 0
    let dropped = 0
    const produce = async (): Promise<void> => {
      while (made++ < 1_200) await here.world.make(`a${made % 40}`)
    }
    const producing = Promise.all(Array.from({ length: 8 }, produce))
    const state = { over: false }
    void producing.then(() => (state.over = true))
    while (!state.over) {
      const swept = await sweep(70)
      expect(swept.miscounted).toEqual([])
      dropped += swept.events
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await producing
    await until(async () => judge(seen, await committedOf(here.world)).lost === 0)
    expect(judge(seen, await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    await until(async () => {
      dropped += (await sweep(70)).events
      return dropped === 1_200
    })
    expect(await stored()).toBe(0)
    await Promise.all(relays.map((relay) => relay.stop()))
    await here.world.make('a1')
    expect(await segment()).toBeGreaterThan(4)
    expect(await here.world.once.relay({ to: sink }).drain()).toBe(1)
  })

  it('keep what a destination has not been sent, and what is within the window', async () => {
    const to = inProcessSink(() => {}, { name: 'one' })
    for (let i = 0; i < 30; i++) await here.world.make(`a${i}`)
    for (let i = 0; i < 8; i++) await sweep(1)
    expect(await stored()).toBe(30)
    await here.world.once.relay({ to }).drain()
    for (let i = 0; i < 8; i++) await sweep(3_600_000)
    expect(await stored()).toBe(30)
    const late = inProcessSink(() => {}, { name: 'two' })
    await here.world.once.core.store.outbox?.open({ destination: 'two' })
    for (let i = 0; i < 8; i++) await sweep(1)
    expect(await stored()).toBe(30)
    await here.world.once.relay({ to: late }).drain()
    for (let i = 0; i < 8; i++) await sweep(1)
    expect(await stored()).toBe(0)
  })

  it('are dropped, without an alarm, also where a relay sent none of their events', async () => {
    const seen: OutgoingEvent[] = []
    const to = inProcessSink((event) => void seen.push(event), { name: 'one' })
    for (let i = 0; i < 30; i++) await here.world.make(`a${i % 7}`)
    expect(await here.world.once.relay({ to, except: ['step.*'] }).drain()).toBe(0)
    expect(await one('select count(*)::int from effectively_once.held')).toBe(0)
    for (let i = 0; i < 8; i++) expect((await sweep(1)).miscounted).toEqual([])
    expect(await stored()).toBe(0)
    await here.world.make('a1')
    expect(await here.world.once.relay({ to, only: ['step.*'] }).drain()).toBe(1)
    expect(seen).toHaveLength(1)
  })

  it('raise an alarm, and keep everything, when an event was passed that nobody counted', async () => {
    for (let i = 0; i < 20; i++) await here.world.make(`a${i % 5}`)
    await here.world.once.relay({ to: inProcessSink(() => {}, { name: 'one' }) }).drain()
    // What a producer without the shard's lock would leave: an event behind the cursor.
    await here.world.pool.query(
      `insert into effectively_once.event (seq, shard, aggregatetype, aggregateid, type, payload)
       select min(seq) - 1, min(shard), 'step', 'late', 'step.made', '{}' from effectively_once.event
        where aggregateid = 'a1'`,
    )
    let alarm: Swept['miscounted'] = []
    for (let i = 0; i < 8; i++) alarm = (await sweep(1)).miscounted
    expect(alarm).toEqual([
      {
        destination: 'one',
        segment: 1,
        shard: expect.any(Number),
        stored: expect.any(Number),
        acknowledged: expect.any(Number),
      },
    ])
    expect(alarm[0]?.stored).toBe((alarm[0]?.acknowledged ?? 0) + 1)
    expect(await stored()).toBe(21)
    await here.world.once.sweep()
    expect(here.world.signals.some(({ kind }) => kind === 'miscounted')).toBe(true)
  })

  it('let go of held events only when nobody holds them', async () => {
    let broken = true
    const seen: Step[] = []
    const to = inProcessSink((event) => {
      if (broken && (event.data as Step).aggregate === 'bad') throw new Error('not now')
      seen.push(event.data as Step)
    })
    for (const aggregate of ['bad', 'good', 'bad']) await here.world.make(aggregate)
    const relay = await here.world.once.relay({ to, attempts: 1_000, lease: '1s' }).start()
    await until(() => seen.length === 1)
    for (let i = 0; i < 8; i++) await sweep(1)
    expect(await stored()).toBe(2)
    broken = false
    await until(() => seen.length === 3)
    await relay.stop()
    expect(seen.map(({ aggregate, n }) => `${aggregate}${n}`)).toEqual(['good1', 'bad1', 'bad2'])
    await sweep(1)
    expect(await stored()).toBe(0)
  })

  it('stall nobody: with a writer and a reader open for long, others go on, and nothing is dropped', async () => {
    const seen: string[] = []
    const to = inProcessSink((event) => void seen.push(event.subject), { name: 'one' })
    const relay = await here.world.once.relay({ to, lease: '2s' }).start()
    for (let i = 0; i < 20; i++) await here.world.make(`a${i}`)
    await until(() => seen.length === 20)
    // The next segment is attached: whoever writes now may still write into the first one.
    await sweep(1)
    const [reader, writer] = [await here.world.pool.connect(), await here.world.pool.connect()]
    await reader.query('begin isolation level repeatable read')
    await reader.query('select count(*) from effectively_once.event')
    await writer.query('begin')
    await writer.query(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('step', 'open', 'step.made', '{}')`,
    )
    let slowest = 0
    const state = { going: true }
    const producing = (async () => {
      // Another shard than the open one's.
      while (state.going) {
        const before = performance.now()
        await here.world.make('a1')
        slowest = Math.max(slowest, performance.now() - before)
      }
    })()
    for (let i = 0; i < 6; i++) expect((await sweep(1)).events).toBe(0)
    expect(await segment()).toBe(2)
    // A relay has looked since: if it took the first segment for sealed, it would never see what comes now.
    await until(async () => (await stored()) === seen.length)
    await writer.query('commit')
    await until(() => seen.includes('open'))
    let busy = 0
    for (let i = 0; i < 6; i++) busy += (await sweep(1)).partitionsBusy
    state.going = false
    await producing
    // The reader holds what should be dropped.
    expect(busy).toBeGreaterThan(0)
    expect(slowest).toBeLessThan(1_000)
    await reader.query('commit')
    reader.release()
    writer.release()
    await until(async () => {
      expect((await sweep(1)).miscounted).toEqual([])
      return (await stored()) === 0
    })
    await relay.stop()
  })

  it('of acknowledgements leave the newest cursor behind', async () => {
    const seen: OutgoingEvent[] = []
    const to = inProcessSink((event) => void seen.push(event), { name: 'one' })
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 10; i++) await here.world.make(`a${i}`)
      await here.world.once.relay({ to }).drain()
      // As if it were full: the size is what turns acknowledgements over.
      for (let i = 0; i < 3; i++) {
        await sweep(3_600_000)
        await turnAcks()
      }
    }
    await sweep(3_600_000)
    expect(await one<number>('select min(segment)::int from effectively_once.ack')).toBeGreaterThan(3)
    expect(await one<number>(`select count(*)::int from pg_class where relname ~ '^ack_[0-9]+$'`)).toBeLessThan(5)
    expect(seen).toHaveLength(40)
    expect(await here.world.once.relay({ to }).drain()).toBe(0)
    for (let i = 0; i < 8; i++) expect((await sweep(1)).miscounted).toEqual([])
    expect(await stored()).toBe(0)
  })

  async function turnAcks(): Promise<void> {
    const next = await one<number | undefined>(
      `select no from effectively_once.segment where name = 'ack' and state = 1`,
    )
    if (next === undefined) return
    await here.world.pool.query(`select nextval('effectively_once.ack_segment')`)
    await here.world.pool.query(
      `update effectively_once.segment set state = state + 1 where name = 'ack' and state in (1, 2)`,
    )
  }
})
