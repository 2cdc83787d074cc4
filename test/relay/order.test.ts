import type { ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { numberingStore, type Numbering } from './mutants.ts'
import { startRelayChild } from './relay-child.ts'
import { shardOf } from '../../src/outbox/publisher.ts'
import { committedOf, judge, openWorld, prepare, until, type Step, type World } from './world.ts'

const PRODUCERS = 16
const AGGREGATES = 300
const RELAYS = 4
const KILLS = 3
const EVENTS = 1_200

describePostgres('16 producers on 300 aggregates beside 4 relays', () => {
  let database: FreshDatabase
  let world: World
  let folder: string
  let file: string
  const children = new Set<ChildProcess>()

  beforeEach(async () => {
    database = await freshDatabase()
    world = await openWorld(database.url)
    await prepare(world)
    folder = mkdtempSync(join(tmpdir(), 'relay-'))
    file = join(folder, 'sent')
    writeFileSync(file, '')
  })
  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL')
    children.clear()
    await world.close()
    await database.drop()
    rmSync(folder, { recursive: true, force: true })
  })

  async function produce(goOn: () => boolean): Promise<void> {
    const producer = async (): Promise<void> => {
      while (goOn()) await world.make(`a${Math.floor(Math.random() * AGGREGATES)}`)
    }
    await Promise.all(Array.from({ length: PRODUCERS }, producer))
  }

  const startChild = (...more: string[]): Promise<ChildProcess> =>
    startRelayChild(children, { url: database.url, file, more })

  /** The last line may be torn by the kill; it is then sent again. */
  const sent = (): Step[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line) => {
        try {
          return [JSON.parse(line) as Step]
        } catch {
          return []
        }
      })
  const missing = async (): Promise<number> => judge(sent(), await committedOf(world)).lost

  /** What four relays in one process make of the events of producers that number them so. */
  async function runWith(numbering: Numbering): Promise<ReturnType<typeof judge> & { alarmed: number }> {
    await world.close()
    world = await openWorld(database.url, 24, (pool) => numberingStore(pool, numbering))
    const seen: Step[] = []
    const sink = inProcessSink((event) => void seen.push(event.data as Step), { name: 'four' })
    const relays = Array.from({ length: RELAYS }, () => world.once.relay({ to: sink, lease: '2s' }))
    await Promise.all(relays.map((relay) => relay.start()))
    let made = 0
    await produce(() => made++ < EVENTS)
    await Promise.all(relays.map((relay) => relay.drain()))
    await Promise.all(relays.map((relay) => relay.stop()))
    await world.once.relay({ to: sink }).drain()
    let alarmed = 0
    for (let i = 0; i < 8; i++) {
      const { miscounted } = await pgStore(world.pool).retention.sweep({ limit: 1, replayForMs: 1, resendForMs: 1 })
      alarmed = miscounted.reduce((sum, { stored, acknowledged }) => sum + stored - acknowledged, 0)
    }
    return { ...judge(seen, await committedOf(world)), alarmed }
  }

  it('in one process: nothing lost, nothing out of order, nothing twice', { timeout: 60_000 }, async () => {
    expect(await runWith('locked')).toEqual({ lost: 0, inversions: 0, duplicates: 0, alarmed: 0 })
  })

  it.each(['plainCursor', 'lateLock'] as const)(
    'the same run catches %s, and so does the count before events are dropped',
    // On a busy machine a run may have losses and no inversion.
    { timeout: 60_000, retry: 2 },
    async (numbering) => {
      const { lost, inversions, alarmed } = await runWith(numbering)
      expect(lost).toBeGreaterThan(0)
      expect(inversions).toBeGreaterThan(0)
      expect(alarmed).toBe(lost)
    },
  )

  it('in processes killed at random: nothing lost, first occurrences in order', { timeout: 120_000 }, async () => {
    await Promise.all(Array.from({ length: RELAYS }, () => startChild()))
    let kills = 0
    const producing = produce(() => kills < KILLS)
    while (kills < KILLS) {
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 500))
      const [victim] = children
      victim?.kill('SIGKILL')
      await startChild()
      kills++
    }
    await producing
    await until(async () => (await missing()) === 0, 30_000)
    const { lost, inversions } = judge(sent(), await committedOf(world))
    expect({ lost, inversions }).toEqual({ lost: 0, inversions: 0 })
  })

  it('an event that kills its relay is found and parked, and the rest arrives', { timeout: 120_000 }, async () => {
    // Some of them stand before and behind it in its shard.
    const neighbour = neighbourOf('poison')
    for (let i = 0; i < 200; i++) await world.make(i % 40 === 0 ? neighbour : `a${i % 20}`)
    await world.pool.query(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload)
       values ('step', 'poison', 'step.made', '{"aggregate": "poison", "n": 1}')`,
    )
    for (let i = 0; i < 200; i++) await world.make(i % 40 === 0 ? neighbour : `a${i % 20}`)
    const parked = async (): Promise<number> =>
      (await world.pool.query(`select 1 from effectively_once.held where state = 3 and aggregateid = 'poison'`))
        .rowCount ?? 0
    let deaths = 0
    while ((await parked()) === 0 && deaths < 20) {
      const child = await startChild('poison')
      await Promise.race([onceEvent(child, 'exit'), until(async () => (await parked()) > 0, 15_000).catch(() => {})])
      if (child.exitCode !== null || child.signalCode !== null) deaths++
    }
    await until(async () => (await missing()) === 0)
    const { lost, inversions } = judge(sent(), await committedOf(world))
    expect({ lost, inversions, parked: await parked() }).toEqual({ lost: 0, inversions: 0, parked: 1 })
    expect(deaths).toBeGreaterThan(2)
    const others = await world.pool.query(`select 1 from effectively_once.held where aggregateid <> 'poison'`)
    expect(others.rowCount).toBe(0)
  })

  it('so is one that is held when it does, and whoever was held beside it arrives', { timeout: 120_000 }, async () => {
    const innocents = 60
    // All of them are held first, because of their time, and come up together.
    await world.pool.query(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload, headers)
       select 'step', a, 'step.made', jsonb_build_object('aggregate', a, 'n', 1), jsonb_build_object('notbefore', now()::text)
         from (select case when g = 30 then 'poison' else 'late' || g end as a from generate_series(0, $1::int4) g) v`,
      [innocents],
    )
    const poison = async (): Promise<{ state: number; attempts: number; reason: string } | undefined> =>
      (await world.pool.query(`select state, attempts, reason from effectively_once.held where aggregateid = 'poison'`))
        .rows[0]
    const over = async (): Promise<boolean> => (await poison())?.state === 3
    let deaths = 0
    while (!(await over()) && deaths < 8) {
      const child = await startChild('poison')
      await Promise.race([onceEvent(child, 'exit'), until(over, 15_000).catch(() => {})])
      if (child.exitCode !== null || child.signalCode !== null) deaths++
    }
    // Once among all, once among some, and alone.
    expect(await poison()).toEqual({
      state: 3,
      attempts: 3,
      reason: 'Error: 3 relays ended while they sent this event',
    })
    expect(deaths).toBe(3)
    await until(() => new Set(sent().map(({ aggregate }) => aggregate)).size === innocents)
    expect(sent().some(({ aggregate }) => aggregate === 'poison')).toBe(false)
    await until(async () => (await world.pool.query('select 1 from effectively_once.held')).rowCount === 1)
  })
})

/** Another aggregate of the same shard. */
function neighbourOf(aggregate: string): string {
  for (let n = 0; ; n++) if (shardOf(`n${n}`) === shardOf(aggregate)) return `n${n}`
}
