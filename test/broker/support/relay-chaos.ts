import { milliseconds } from '../../../src/duration.ts'
import { committedOf, judge, openWorld, prepare, until } from '../../relay/world.ts'
import { brokerNamed } from './broker.ts'
import { Processes } from './processes.ts'
import { makeSteps, stepsOf } from './steps.ts'

export interface ChaosParams {
  readonly broker: string
  /** The broker's address. */
  readonly url: string
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly relays?: number
  /** Between two kills. */
  readonly pauseMs?: { readonly min: number; readonly max: number }
  /** At least this many relays are killed; the events are published over that time. */
  readonly kills: number
  readonly timeoutMs: number
}

export interface ChaosResult {
  readonly events: number
  readonly kills: number
  readonly lost: number
  /** Of first occurrences, per aggregate. */
  readonly inversions: number
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
  const relays = new Processes('./relay-process.ts', [params.broker, params.database, params.url, place, '1s'])
  try {
    await prepare(world)
    const sink = there.sink()
    await sink.open?.()
    await relays.start(params.relays ?? 4)
    const parts = Math.max(1, params.kills)
    let published = 0
    // In portions, one per kill, so that the kills come while events are under way.
    const killing = relays.replaceUntil(() => relays.kills >= params.kills, params.pauseMs ?? { min: 200, max: 600 })
    const publishing = (async () => {
      for (let part = 1; part <= parts; part++) {
        const count = Math.floor((params.events * part) / parts) - published
        await makeSteps(world, { count, aggregates: 300 })
        published += count
        await until(() => relays.kills >= part, params.timeoutMs)
      }
    })()
    await Promise.all([killing, publishing])
    const missing = async (): Promise<number> => judge(stepsOf(await there.received()), await committedOf(world)).lost
    const deadline = performance.now() + params.timeoutMs
    let before = Infinity
    for (let left = await missing(); left > 0; left = await missing()) {
      // As long as it gets less, it goes on.
      if (left >= before && performance.now() > deadline) break
      before = left
      await new Promise((resolve) => setTimeout(resolve, 300))
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
