import { milliseconds } from '../../../src/duration.ts'
import { committedOf, judge, openWorld, prepare } from '../../relay/world.ts'
import { brokerNamed } from './broker.ts'
import { Processes } from './processes.ts'
import { makeSteps, stepsOf } from './steps.ts'

const KILL_MS_MAX = 500

export interface ChaosParams {
  readonly broker: string
  /** The broker's address. */
  readonly url: string
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly relays: number
  /** This many relays are killed; the events are published over that time. */
  readonly kills: number
  /** A relay that was killed is replaced by another one. Otherwise there are `relays` left at the end: that is quicker. */
  readonly replace: boolean
  readonly timeoutMs: number
}

export interface ChaosResult {
  readonly events: number
  readonly kills: number
  readonly lost: number
  /** Of first occurrences, per aggregate. */
  readonly inversions: number
  /** The broker promised to keep the order. */
  readonly ordered: boolean
  readonly duplicates: number
  /** The broker promised to drop duplicates for the time this took. */
  readonly duplicatesAllowed: boolean
  readonly seconds: number
}

/** Events are published while relays in processes of their own are killed at random; then everything is counted. */
export async function relayChaos(params: ChaosParams): Promise<ChaosResult> {
  const began = performance.now()
  const broker = await brokerNamed(params.broker)
  const place = `chaos_${Math.random().toString(36).slice(2)}`
  const there = await broker.open({ url: params.url, place, make: true })
  const world = await openWorld(params.database)
  const relays = new Processes('relay-process', [params.broker, params.database, params.url, place, '1s'])
  try {
    await prepare(world)
    const sink = there.sink()
    await sink.open?.()
    await relays.start(params.relays + (params.replace ? 0 : params.kills))
    // In portions, one per kill, so that the kills come while events are under way.
    const portions = params.kills + 1
    for (let portion = 0, published = 0; portion < portions; portion++) {
      const count = Math.round((params.events * (portion + 1)) / portions) - published
      published += count
      const made = makeSteps(world, { count, aggregates: 300 })
      if (portion < params.kills) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * KILL_MS_MAX))
        if (params.replace) await relays.replaceOne()
        else relays.killOne()
      }
      await made
    }
    const missing = async (): Promise<number> => judge(stepsOf(await there.received()), await committedOf(world)).lost
    const deadline = performance.now() + params.timeoutMs
    let before = Infinity
    for (let left = await missing(); left > 0; left = await missing()) {
      // As long as it gets less, it goes on.
      if (left >= before && performance.now() > deadline) break
      before = left
      await new Promise((resolve) => setTimeout(resolve, params.events < 10_000 ? 100 : 1_000))
    }
    await relays.end()
    const result = judge(stepsOf(await there.received()), await committedOf(world))
    const ms = performance.now() - began
    const window = sink.dedupes
    const duplicatesAllowed =
      window === false || (window !== 'forever' && milliseconds(window, 0, { option: '', min: 0, max: Infinity }) < ms)
    return {
      ...result,
      events: params.events,
      kills: relays.kills,
      ordered: sink.orders,
      duplicatesAllowed,
      seconds: Math.round(ms / 100) / 10,
    }
  } finally {
    await relays.end()
    await there.remove().catch(() => {})
    await there.close()
    await world.close()
  }
}
