import { CONSUMER_BYTES_MAX } from '../../limits.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { event } from '../../outbox/event.ts'
import type { EventDef } from '../../outbox/event.ts'
import type { OnFailure } from '../../outbox/relay-parts.ts'
import type { Dice } from './dice.ts'
import type { Service } from './service.ts'
import type { Weather } from './weather.ts'

/** `added` is new: consumers of an older version do not know it. */
export type EventType = 'made' | 'added'

/** What an event says: which execution published it, and the how manieth it is. */
export interface EventData {
  readonly type: EventType
  /** Whose it is: services have aggregates with the same names. */
  readonly service: Service
  readonly aggregate: string
  readonly key: string
  readonly exec: number
  readonly ordinal: number
  readonly temper: Temper
  /** How the consumer takes it. */
  readonly taste: Temper
}

/** How the broker takes an event: well, badly for some times, never, or its sender dies of it. */
export type Temper =
  | { readonly is: 'fine' }
  | { readonly is: 'failing'; readonly times: number }
  | { readonly is: 'poison'; readonly retryable: boolean }
  | { readonly is: 'deadly' }

export interface PlannedEvent {
  readonly type: EventType
  readonly aggregate: string
  readonly temper: Temper
  readonly taste: Temper
  /** Not sent before this long after it was published; 0: at once. */
  readonly delayMs: number
}

export interface RelaySettings {
  readonly leaseMs: number
  readonly attempts: number
  readonly onFailure: OnFailure
  /** What the sink promises. */
  readonly orders: boolean
  readonly batch: number | null
  /** How many of the events the broker dislikes end whoever sends them. */
  readonly deadly: number
  /** How many events are not to be sent at once. */
  readonly delayed: number
}

/** Consumers beside the relays, one in every process. */
export interface ConsumerSettings {
  readonly attempts: number
  readonly onFailure: OnFailure
  readonly batch: number
  readonly concurrency: number
  readonly pipelined: boolean
  /** Events carry their predecessors. */
  readonly ordered: boolean
  /** The broker hands out in any order. */
  readonly reorders: boolean
  readonly holdsForMs: number
  readonly extends: boolean
  /** How often a handler dislikes an event. */
  readonly trouble: number
  /** What a message keeps in memory: of large ones a few are all that a consumer has in hand. */
  readonly bytes: number
}

export type SimEvents = Readonly<Record<EventType, EventDef<EventData>>>

const PLAIN = event<EventData>(({ aggregate }) => aggregate)
const ORDERED = event<EventData>(({ aggregate }) => aggregate, { ordered: true })
export const EVENTS: SimEvents = { made: PLAIN, added: PLAIN }
export const ORDERED_EVENTS: SimEvents = { made: ORDERED, added: ORDERED }
export const DESTINATION = 'broker'

const NEW_TYPE_SHARE = 0.4
const LARGE_SHARE = 0.3
const FINE: Temper = { is: 'fine' }
/** Two of them share a shard: what one does must not make a cursor pass the other. */
const AGGREGATES: readonly string[] = ['agg-0', sharing('agg-0'), 'agg-1', 'agg-2']

function sharing(aggregate: string): string {
  for (let n = 10; ; n++) if (shardOf(`agg-${n}`) === shardOf(aggregate)) return `agg-${n}`
}

export function drawRelay(dice: Dice): RelaySettings {
  const roll = dice.next()
  return {
    leaseMs: 500 + dice.below(500),
    attempts: 1 + dice.below(4),
    onFailure: roll < 0.5 ? 'park' : roll < 0.8 ? 'block' : 'skip',
    orders: dice.chance(0.5),
    batch: dice.chance(0.3) ? 1 + dice.below(3) : null,
    deadly: dice.chance(0.2) ? 0.3 : 0.01,
    delayed: dice.chance(0.2) ? 0.5 : 0.05,
  }
}

/** Ordered events leave in order or not at all: a relay that gives one up would leave its successors waiting for ever. */
export function drawConsumer(dice: Dice): ConsumerSettings {
  const roll = dice.next()
  const ordered = dice.chance(0.5)
  return {
    attempts: 1 + dice.below(4),
    onFailure: roll < 0.5 ? 'park' : roll < 0.8 ? 'block' : 'skip',
    batch: 1 + dice.below(8),
    concurrency: 1 + dice.below(3),
    pipelined: dice.chance(0.3),
    ordered,
    reorders: ordered || dice.chance(0.5),
    holdsForMs: 300 + dice.below(1_000),
    extends: dice.chance(0.5),
    trouble: dice.chance(0.6) ? dice.next() * 0.3 : 0,
    bytes: dice.chance(LARGE_SHARE) ? CONSUMER_BYTES_MAX / (1 + dice.below(4)) : 0,
  }
}

export interface EventsDrawn {
  readonly aggregates: number
  /** How often an event is not fine. */
  readonly trouble: number
  readonly onFailure: OnFailure
  readonly relay: RelaySettings | null
  /** The most events of one operation. */
  readonly eventsMax: number
  readonly consumer: ConsumerSettings | null
  readonly weather: Weather | null
}

export function drawEvents(dice: Dice, drawn: EventsDrawn): PlannedEvent[] {
  const { aggregates, trouble, onFailure, relay, eventsMax, consumer, weather } = drawn
  return Array.from({ length: dice.chance(0.15) ? 0 : 1 + dice.below(eventsMax) }, () => {
    const n = dice.below(aggregates)
    const temper = dice.chance(trouble) ? drawTemper(dice, onFailure, relay?.deadly) : FINE
    const taste = consumer !== null && dice.chance(consumer.trouble) ? drawTemper(dice, consumer.onFailure) : FINE
    const delayMs = consumer?.ordered !== true && dice.chance(relay?.delayed ?? 0) ? 1 + dice.below(300) : 0
    const type = weather === 'versions' && dice.chance(NEW_TYPE_SHARE) ? 'added' : 'made'
    return { type, aggregate: AGGREGATES[n] ?? `agg-${n}`, temper, taste, delayMs }
  })
}

function drawTemper(dice: Dice, onFailure: OnFailure, deadly = 0.03): Temper {
  const roll = dice.next()
  if (onFailure === 'block' || roll < 0.65 * (1 - deadly)) return { is: 'failing', times: 1 + dice.below(5) }
  return roll < 1 - deadly ? { is: 'poison', retryable: dice.chance(0.6) } : { is: 'deadly' }
}

/** Its aggregate's name in this world: no other service has it. */
export function aggregateOf({ service, aggregate }: EventData): string {
  return service === 0 ? aggregate : `${aggregate} of the other`
}

export function nameOf({ key, exec, ordinal }: EventData): string {
  return `${key}/${exec}/${ordinal}`
}
