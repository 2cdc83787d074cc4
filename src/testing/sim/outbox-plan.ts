import { CONSUMER_BYTES_MAX } from '../../limits.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { event } from '../../outbox/event.ts'
import type { EventDef } from '../../outbox/event.ts'
import type { OnFailure } from '../../outbox/relay-parts.ts'
import type { Dice } from './dice.ts'
import type { Service } from './service.ts'
import type { Weather } from './weather.ts'

/** `added` is the new type, which consumers of an older version do not know. */
export type EventType = 'made' | 'added'

/** The data of an event: the execution that published it, and its index within that execution. */
export interface EventData {
  readonly type: EventType
  /** The service that published the event. Both services have aggregates with the same names. */
  readonly service: Service
  readonly aggregate: string
  readonly key: string
  readonly exec: number
  readonly ordinal: number
  readonly temper: Temper
  /** How the consumer's handler reacts to the event. */
  readonly taste: Temper
}

/**
 * How the broker reacts to an event: it accepts it, refuses it a few times, always refuses it, or the event kills its
 * sender.
 */
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
  /** How long after its publication the event is due. 0: at once. */
  readonly delayMs: number
}

export interface RelaySettings {
  readonly leaseMs: number
  readonly attempts: number
  readonly onFailure: OnFailure
  /** Whether the sink keeps the order of the events of one call. */
  readonly orders: boolean
  readonly batch: number | null
  /** The share of refused events that kill the process that sends them. */
  readonly deadly: number
  /** The share of delayed events. */
  readonly delayed: number
  /** The maximum number of events per second of one process, or null for no limit. */
  readonly rate: number | null
  /** The only types that relays send, or null for every type. */
  readonly only: readonly EventType[] | null
}

/** The settings of the consumers. Every process runs one beside its relay. */
export interface ConsumerSettings {
  readonly attempts: number
  readonly onFailure: OnFailure
  readonly batch: number
  readonly concurrency: number
  readonly pipelined: boolean
  /** Events carry the id of their predecessor. */
  readonly ordered: boolean
  /** The broker delivers in any order. */
  readonly reorders: boolean
  readonly holdsForMs: number
  readonly extends: boolean
  /** The share of events that a handler fails on. */
  readonly trouble: number
  /** The size of a message in memory. A consumer holds only a few large messages at a time. */
  readonly bytes: number
  /** The maximum number of messages per second of one process, or null for no limit. */
  readonly rate: number | null
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
/** Two aggregates share a shard, because an event of one must not move the cursor past events of the other. */
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
    rate: null,
    only: null,
  }
}

/**
 * Relays must send ordered events in order or not at all. If a relay parked one, its successors would wait for ever.
 */
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
    rate: null,
  }
}

export interface EventsDrawn {
  readonly aggregates: number
  /** The share of events that the broker refuses. */
  readonly trouble: number
  readonly onFailure: OnFailure
  readonly relay: RelaySettings | null
  /** The maximum number of events of one operation. */
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
    const isNew = (weather === 'versions' || weather === 'filters') && dice.chance(NEW_TYPE_SHARE)
    const type = isNew ? 'added' : 'made'
    return { type, aggregate: AGGREGATES[n] ?? `agg-${n}`, temper, taste, delayMs }
  })
}

function drawTemper(dice: Dice, onFailure: OnFailure, deadly = 0.03): Temper {
  const roll = dice.next()
  if (onFailure === 'block' || roll < 0.65 * (1 - deadly)) return { is: 'failing', times: 1 + dice.below(5) }
  return roll < 1 - deadly ? { is: 'poison', retryable: dice.chance(0.6) } : { is: 'deadly' }
}

/** The name of the aggregate in this world, which no other service uses. */
export function aggregateOf({ service, aggregate }: EventData): string {
  return service === 0 ? aggregate : `${aggregate} of the other`
}

export function nameOf({ key, exec, ordinal }: EventData): string {
  return `${key}/${exec}/${ordinal}`
}
