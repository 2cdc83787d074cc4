import type { Duration } from '../../../src/duration.ts'
import type { OutgoingEvent } from '../../../src/sink/sink.ts'
import { eventFor } from '../../../src/testing/sink-contract/index.ts'
import { openWorld } from '../../consumer/world.ts'
import { brokerNamed } from './broker.ts'
import { Processes } from './processes.ts'

export const CONSUMER = 'effects'
/** What a killed process held comes again after this. */
export const HOLDS_FOR: Duration = '2s'
const PER_AGGREGATE = 10
/** How far an event may be from its place: a chain is out of order, and its parts are not a whole run apart. */
const SHUFFLE_WINDOW = 2_000
const AT_A_TIME = 40
const COPIES_MAX = 5
const CHUNK = 500

export interface ConsumerChaosParams {
  readonly broker: string
  readonly url: string
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly consumers: number
  readonly kills: number
  /** false: a process that was killed is not replaced, fewer are left: that is quicker. Default true */
  readonly replace?: boolean
  readonly timeoutMs: number
}

export interface ConsumerChaosResult {
  readonly events: number
  readonly deliveries: number
  readonly kills: number
  /** Effects that did not happen. */
  readonly lost: number
  /** Effects that happened more than once. */
  readonly twice: number
  /** Of `ordered` events, per aggregate. */
  readonly inversions: number
  readonly deadLetters: number
  /** What the broker has still to deliver. */
  readonly unsettled: number
  readonly seconds: number
}

/**
 * Each event is sent 1 to 5 times, in random order within a window, to consumer processes that are killed at random. Half of
 * the aggregates have `ordered` events.
 */
export async function consumerChaos(params: ConsumerChaosParams): Promise<ConsumerChaosResult> {
  const began = performance.now()
  const broker = await brokerNamed(params.broker)
  const place = `consumer_${Math.random().toString(36).slice(2)}`
  const there = await broker.open({ url: params.url, place, make: true })
  const world = await openWorld(params.database)
  const args = [params.broker, params.database, params.url, place]
  const consumers = new Processes('consumer-process', args)
  const sends = shuffled(copiesOf(params.events))
  try {
    const sink = there.sink()
    await sink.open?.()
    await consumers.start(params.consumers)
    const portion = Math.ceil(sends.length / (params.kills + 1))
    for (let at = 0; at < sends.length; at += portion) {
      const sent = sendAll(sink, sends.slice(at, at + portion))
      if (consumers.kills < params.kills) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 500))
        if (params.replace ?? true) await consumers.replaceOne()
        else consumers.killOne()
      }
      await sent
    }
    const unsettled = async (): Promise<number> => (await there.unsettled?.(CONSUMER)) ?? 0
    const deadline = performance.now() + params.timeoutMs
    const arrived = async (): Promise<boolean> =>
      (await world.count('(select distinct id from applied) a')) === params.events && (await unsettled()) === 0
    while (!(await arrived()) && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 200))
    await consumers.end()
    return {
      events: params.events,
      deliveries: sends.length,
      kills: consumers.kills,
      lost: params.events - (await world.count('(select distinct id from applied) a')),
      twice: await world.count('(select id from applied group by id having count(*) > 1) a'),
      inversions: await world.count(`(
        select n, lag(n) over (partition by aggregate order by seq) as before from applied where aggregate like 'o%'
      ) a where before >= n`),
      deadLetters: await world.count('effectively_once.dead_letter'),
      unsettled: await unsettled(),
      seconds: Math.round((performance.now() - began) / 100) / 10,
    }
  } finally {
    await consumers.end()
    await there.remove().catch(() => {})
    await there.close()
    await world.close()
  }
}

export function copiesOf(events: number): OutgoingEvent[] {
  return Array.from({ length: events }, (_, i) => i).flatMap((i) => {
    // Some aggregates at a time, as in life.
    const block = Math.floor(i / (AT_A_TIME * PER_AGGREGATE))
    const within = i % (AT_A_TIME * PER_AGGREGATE)
    const ordered = within % 2 === 0
    const aggregate = `${ordered ? 'o' : 'u'}${block}-${within % AT_A_TIME}`
    const n = Math.floor(within / AT_A_TIME) + 1
    const idOf = (which: number): string => (which === 0 ? '' : `${aggregate}-${which}`)
    const event = { ...eventFor(aggregate, n), id: idOf(n), previous: ordered ? idOf(n - 1) : undefined }
    const copies = 1 + Math.floor(Math.random() * COPIES_MAX)
    // Under ids of their own, as deliberate resends are: the broker must not drop them.
    return Array.from({ length: copies }, (_unused, copy) => ({ ...event, brokerId: `${event.id}:r${copy}` }))
  })
}

/** In random order, each at most about a window from where it was. */
export function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item, at) => ({ item, at: at + Math.random() * SHUFFLE_WINDOW }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

export async function sendAll(
  sink: {
    send(events: readonly OutgoingEvent[], options: { signal: AbortSignal }): Promise<readonly { kind: string }[]>
  },
  events: readonly OutgoingEvent[],
): Promise<void> {
  const { signal } = new AbortController()
  for (let at = 0; at < events.length; at += CHUNK) {
    const verdicts = await sink.send(events.slice(at, at + CHUNK), { signal })
    if (verdicts.some(({ kind }) => kind !== 'sent')) throw new Error('an event could not be sent')
  }
}
