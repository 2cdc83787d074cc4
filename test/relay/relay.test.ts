import { afterEach, expect, it } from 'vitest'
import { inProcessSink, type OutgoingEvent, type Relay, type RelayOptions } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { committedOf, judge, until, type Step } from './world.ts'

describePostgres('the relay', () => {
  const here = freshWorld()
  const relays: Relay[] = []

  afterEach(async () => {
    await Promise.all(relays.splice(0).map((relay) => relay.stop()))
  })

  function relay(options: RelayOptions): Relay {
    const made = here.world.once.relay({ lease: '1500ms', ...options })
    relays.push(made)
    return made
  }

  const stepOf = (event: OutgoingEvent): Step => event.data as Step
  const held = async () =>
    (await here.world.pool.query('select state, attempts, aggregateid, reason from effectively_once.held order by seq'))
      .rows

  it('sends what was committed, with its attributes, and nothing twice', async () => {
    const seen: OutgoingEvent[] = []
    for (const aggregate of ['a', 'b', 'a']) await here.world.make(aggregate)
    const drained = await relay({ to: inProcessSink((event) => seen.push(event)) }).drain()
    expect(drained).toBe(3)
    expect(judge(seen.map(stepOf), await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    const [first] = seen as [OutgoingEvent]
    expect(first).toMatchObject({ specversion: '1.0', source: 'relay', type: 'step.made', attempt: 1 })
    expect(first.aggregate).toEqual({ type: 'step', id: first.subject })
    expect(first.brokerId).toBe(first.id)
    expect(Math.abs(Date.parse(first.time) - Date.now())).toBeLessThan(60_000)
    expect(await relay({ to: inProcessSink((event) => seen.push(event)) }).drain()).toBe(0)
    expect(seen).toHaveLength(3)
  })

  it('sends to each destination what the other one has already', async () => {
    await here.world.make('a')
    expect(await relay({ to: inProcessSink(() => {}, { name: 'one' }) }).drain()).toBe(1)
    expect(await relay({ to: inProcessSink(() => {}, { name: 'two' }) }).drain()).toBe(1)
  })

  it('wakes up when this process commits', async () => {
    const seen: number[] = []
    await relay({ to: inProcessSink(() => void seen.push(performance.now())) }).start()
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    const before = performance.now()
    await here.world.make('a')
    await until(() => seen.length === 1)
    expect((seen[0] ?? 0) - before).toBeLessThan(300)
  })

  it('a failing head holds up its own aggregate only, and is sent before its successors', async () => {
    const seen: Step[] = []
    let broken = true
    const to = inProcessSink((event) => {
      const step = stepOf(event)
      if (broken && step.aggregate === 'bad') throw new Error('not now')
      seen.push(step)
    })
    for (let i = 0; i < 5; i++) for (const aggregate of ['bad', 'good']) await here.world.make(aggregate)
    await relay({ to, attempts: 1_000 }).start()
    await until(() => seen.filter(({ aggregate }) => aggregate === 'good').length === 5)
    await here.world.make('bad')
    await here.world.make('good')
    await until(() => seen.length === 6)
    await until(async () => (await held()).length === 6)
    broken = false
    await until(() => seen.length === 12)
    await here.world.make('bad')
    await until(() => seen.length === 13)
    expect(judge(seen, await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    await until(async () => (await held()).length === 0)
  })

  it('parks an event and its successors as one sequence after its attempts', async () => {
    const seen: Step[] = []
    const to = inProcessSink((event) => {
      const step = stepOf(event)
      if (step.aggregate === 'bad' && step.n === 2) throw new Error('never')
      seen.push(step)
    })
    for (let i = 0; i < 3; i++) for (const aggregate of ['bad', 'good']) await here.world.make(aggregate)
    await relay({ to, attempts: 3 }).start()
    await until(() => here.world.signals.some(({ kind }) => kind === 'parked'))
    await here.world.make('bad')
    await here.world.make('good')
    await until(() => seen.length === 5)
    await until(async () => (await held()).length === 3)
    expect(await held()).toEqual([
      { state: 3, attempts: 3, aggregateid: 'bad', reason: 'Error: never' },
      { state: 3, attempts: 0, aggregateid: 'bad', reason: null },
      { state: 3, attempts: 0, aggregateid: 'bad', reason: null },
    ])
    expect(here.world.signals.filter(({ kind }) => kind === 'parked')).toHaveLength(1)
  })

  it('skips on request, and says what it skipped', async () => {
    const seen: Step[] = []
    const to = inProcessSink((event) => {
      const step = stepOf(event)
      if (step.n === 1) throw new Error('never')
      seen.push(step)
    })
    for (let i = 0; i < 4; i++) await here.world.make('a')
    await relay({ to, attempts: 2, onFailure: 'skip' }).start()
    await until(() => seen.length === 3)
    expect(seen.map(({ n }) => n)).toEqual([2, 3, 4])
    await until(async () => (await held()).length === 1)
    expect(await held()).toMatchObject([{ state: 4, attempts: 2 }])
  })

  it('blocks on request: the aggregate waits for ever', async () => {
    let failures = 0
    const to = inProcessSink(() => {
      failures++
      throw new Error('never')
    })
    await here.world.make('a')
    await here.world.make('a')
    await relay({ to, attempts: 1, onFailure: 'block' }).start()
    await until(() => failures > 3)
    expect((await held()).map(({ state }) => state)).toEqual([1, 1])
  })

  it('a sink out of order counts against no event, and is probed with one', async () => {
    const sizes: number[] = []
    let down = true
    const seen: Step[] = []
    const to = {
      ...inProcessSink(() => {}),
      send: async (sent: readonly OutgoingEvent[]) => {
        sizes.push(sent.length)
        if (down) throw new Error('connection refused')
        seen.push(...sent.map(stepOf))
        return sent.map(() => ({ kind: 'sent' as const }))
      },
    }
    for (let i = 0; i < 10; i++) await here.world.make(`a${i}`)
    await relay({ to, attempts: 1 }).start()
    await until(() => sizes.length > 4)
    expect(sizes[0]).toBe(10)
    expect(sizes.slice(1, 4)).toEqual([1, 1, 1])
    down = false
    await until(() => seen.length === 10)
    expect(await held()).toEqual([])
  })

  it('honours notBefore without holding up what follows', async () => {
    const seen: [number, number][] = []
    const started = performance.now()
    const client = await here.world.pool.connect()
    await client.query('begin')
    const joined = here.world.once.join(client)
    await joined.publish('step.made', { aggregate: 'a', n: 1 }, { notBefore: new Date(Date.now() + 1_500) })
    await joined.publish('step.made', { aggregate: 'a', n: 2 })
    await client.query('commit')
    client.release()
    await relay({ to: inProcessSink((event) => seen.push([stepOf(event).n, performance.now() - started])) }).start()
    await until(() => seen.length === 2)
    expect(seen.map(([n]) => n)).toEqual([2, 1])
    expect(seen[1]?.[1]).toBeGreaterThan(1_400)
    expect(seen[1]?.[1]).toBeLessThan(3_500)
  })

  it('two relays share the shards and hand over at once', { timeout: 60_000 }, async () => {
    const seen: { one: Step[]; two: Step[] } = { one: [], two: [] }
    const sink = (name: 'one' | 'two') =>
      inProcessSink((event) => void seen[name].push(stepOf(event)), { name: 'shared' })
    const owned = async () =>
      Number(
        (
          await here.world.pool.query(
            `select count(*) n from effectively_once.shard where lease_until > clock_timestamp()`,
          )
        ).rows[0].n,
      )
    const one = await relay({ to: sink('one'), lease: '12s' }).start()
    const two = await relay({ to: sink('two'), lease: '12s' }).start()
    const feed = async (from: number) => {
      for (let i = from; i < from + 100; i++) await here.world.make(`a${i}`)
    }
    await until(async () => {
      await feed(0)
      return seen.two.length > 0
    })
    seen.one = []
    seen.two = []
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    await feed(1_000)
    await until(() => seen.one.length + seen.two.length >= 100)
    expect(seen.one.length).toBeGreaterThan(20)
    expect(seen.two.length).toBeGreaterThan(20)
    await one.stop()
    const stoppedAt = performance.now()
    await until(async () => (await owned()) === 64)
    // Long before the lease would have ended.
    expect(performance.now() - stoppedAt).toBeLessThan(4_000)
    const before = seen.two.length
    await feed(2_000)
    await until(() => seen.two.length >= before + 100)
    await two.stop()
    expect(await owned()).toBe(0)
  })

  it('pauses and resumes', async () => {
    const seen: Step[] = []
    const paused = await relay({ to: inProcessSink((event) => void seen.push(stepOf(event))) }).start()
    paused.pause()
    await here.world.make('a')
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    expect(seen).toEqual([])
    paused.resume()
    await until(() => seen.length === 1)
  })

  it('keeps plain SQL producers in order', { timeout: 60_000 }, async () => {
    const seen: Step[] = []
    await relay({ to: inProcessSink((event) => void seen.push(stepOf(event))) }).start()
    const produce = async (): Promise<void> => {
      for (let i = 0; i < 60; i++) {
        const aggregate = `a${Math.floor(Math.random() * 5)}`
        await here.world.pool.query(
          `with c as (insert into counter values ($1, 1) on conflict (id) do update set n = counter.n + 1 returning n)
           insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload)
           select 'step', $1, 'step.made', jsonb_build_object('aggregate', $1::text, 'n', n) from c`,
          [aggregate],
        )
      }
    }
    await Promise.all(Array.from({ length: 8 }, produce))
    await until(() => seen.length >= 480)
    expect(judge(seen, await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
  })

  it('refuses absurd options', () => {
    const to = inProcessSink(() => {})
    for (const options of [
      {},
      { to: {} },
      { to, attempts: 0 },
      { to, onFailure: 'shrug' },
      { to, lease: '1ms' },
      { to, x: 1 },
    ]) {
      expect(() => here.world.once.relay(options as never)).toThrow(/ONCE_OPTION_INVALID/)
    }
  })
})
