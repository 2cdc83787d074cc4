import pg from 'pg'
import type { Duration } from '../../../src/duration.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { cloudEventJson, type OutgoingEvent } from '../../../src/sink/sink.ts'
import { outboxSource } from '../../../src/source/outbox.ts'
import type { EventsOf, PulledSource } from '../../../src/source/source.ts'
import { pgStore } from '../../../src/store/postgres/pg.ts'
import { QUEUE, tableSource } from '../../consumer/table-source.ts'
import { events, type World } from '../../consumer/world.ts'
import { brokerNamed, brokerNames } from './broker.ts'
import { repeating } from './repeating.ts'

export const CONSUMER = 'effects'
/** What a killed process held comes again after this. */
const HOLDS_FOR: Duration = '5s'
const CHUNK = 500
const SEND_TRIES = 5

/** Where the events of a run come from: a broker, a table that is one, or the outbox itself. */
export const feedNames: readonly string[] = [...brokerNames, 'table', 'outbox']

export type ChaosSource = PulledSource<EventsOf<typeof events>>

export interface Feed {
  send(events: readonly OutgoingEvent[]): Promise<void>
  /** What the consumer has still to be given, or to settle: all of it when its processes are gone. */
  unsettled(): Promise<number>
  close(): Promise<void>
}

export interface FeedParams {
  readonly name: string
  readonly url: string
  readonly place: string
  readonly inOrder: boolean
  /** Without what keeps the order: a planted mistake. */
  readonly shared?: boolean
}

export function openFeed(params: FeedParams, world: World): Promise<Feed> {
  if (params.name === 'table' && params.inOrder) throw new Error('the table keeps no order; the outbox does')
  if (params.name === 'table') return tableFeed(world)
  if (params.name === 'outbox') return Promise.resolve(outboxFeed(world))
  return brokerFeed(params, world)
}

export async function sourceOf(params: FeedParams, world: World): Promise<ChaosSource> {
  const { name, url, place, inOrder } = params
  // On connections of its own, as a broker's are.
  if (name === 'table') return tableSource(new pg.Pool({ ...world.pool.options, max: 3 })) as ChaosSource
  if (name === 'outbox') return repeating(ownOutbox(world), { inOrder })
  const there = await (await brokerNamed(name)).open({ url, place, make: false, inOrder: inOrder && !params.shared })
  if (!there.source) throw new Error(`${name} has no source`)
  return there.source(events, { holdsFor: HOLDS_FOR })
}

async function brokerFeed({ name, url, place, inOrder, shared = false }: FeedParams, world: World): Promise<Feed> {
  const broker = await brokerNamed(name)
  const there = await broker.open({ url, place, make: true, inOrder: inOrder && !shared })
  const sink = there.sink()
  await sink.open?.()
  return {
    send: (sends) => sendAll(sink, sends),
    async unsettled() {
      const ends = await there.ends?.()
      if (!ends) return (await there.unsettled?.(CONSUMER)) ?? 0
      const { rows } = await world.pool.query<{ partition: string; next: string }>(
        'select partition, next from effectively_once.position where consumer = $1',
        [CONSUMER],
      )
      const known = new Map(rows.map(({ partition, next }) => [partition, BigInt(next)]))
      const left = [...ends].map(([partition, end]) => Number(end - (known.get(partition) ?? 0n)))
      return left.reduce((sum, each) => sum + Math.max(0, each), 0)
    },
    async close() {
      await there.remove().catch(() => {})
      await there.close()
    },
  }
}

async function tableFeed(world: World): Promise<Feed> {
  await world.pool.query(QUEUE)
  await world.pool.query('truncate queue')
  return {
    async send(sends) {
      for (let at = 0; at < sends.length; at += CHUNK) {
        const bodies = sends.slice(at, at + CHUNK).map((event) => cloudEventJson(event))
        await world.pool.query('insert into queue (body) select unnest($1::text[])', [bodies])
      }
    },
    unsettled: () => world.count('queue'),
    close: async () => {},
  }
}

/** `once.outbox`, but for the lease: what a killed process had is waited for as long as on a broker. */
function ownOutbox(world: World): ChaosSource {
  const { outbox } = pgStore(world.pool)
  if (!outbox) throw new Error('no outbox')
  return outboxSource<typeof events>({
    outbox,
    clock: systemClock,
    observe: () => {},
    source: 'consumer',
    leaseMs: 2_000,
    keptForMs: 7 * 86_400_000,
    onPublished: () => () => {},
  })
}

/** Published by transactions, once each; `repeating` has them delivered several times. */
function outboxFeed(world: World): Feed {
  return {
    async send(sends) {
      for (let at = 0; at < sends.length; at += CHUNK) {
        const part = sends.slice(at, at + CHUNK)
        await world.once.run({ scope: 's', key: `${part[0]?.id}`, input: null }, async ({ publish }) => {
          for (const { data, previous } of part) {
            const type = previous === undefined ? 'step.made' : 'link.made'
            await publish(type, data as { aggregate: string; n: number })
          }
        })
      }
    },
    unsettled: () =>
      world.count(`effectively_once.event e where type <> 'step.seen' and seq > coalesce((
        select max(cursor) from effectively_once.ack a where a.destination = 'consumer ${CONSUMER}' and a.shard = e.shard), 0)`),
    close: async () => {},
  }
}

async function sendAll(
  sink: {
    send(events: readonly OutgoingEvent[], options: { signal: AbortSignal }): Promise<readonly { kind: string }[]>
  },
  sends: readonly OutgoingEvent[],
): Promise<void> {
  const { signal } = new AbortController()
  for (let at = 0; at < sends.length; at += CHUNK) {
    const verdicts = await again(() => sink.send(sends.slice(at, at + CHUNK), { signal }))
    if (verdicts.some(({ kind }) => kind !== 'sent')) throw new Error('an event could not be sent')
  }
}

/** A broker on a busy machine may be late with its answer: a relay would send again, too. */
async function again<T>(send: () => Promise<T>): Promise<T> {
  for (let attempt = 1; attempt < SEND_TRIES; attempt++) {
    try {
      return await send()
    } catch (error) {
      console.error(`sent again: ${String(error)}`)
    }
  }
  return send()
}
