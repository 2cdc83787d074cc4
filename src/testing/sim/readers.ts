import type { Dice } from './dice.ts'
import type { ConsumerSettings } from './outbox-plan.ts'

/** A consumer, and the source name of its messages. */
export interface Reader {
  readonly name: string
  readonly source: string
}

const READER: Reader = { name: 'reader', source: 'sim' }
/** Both consumers get the same messages. The concatenations of name, source and id are equal. */
const CROSSING: readonly Reader[] = [
  { name: READER.name, source: `s${READER.source}` },
  { name: `${READER.name}s`, source: READER.source },
]
const CROSSING_SHARE = 0.15
const LEASED_SHARE = 0.2
const REDRIVES_SHARE = 0.25

/** The settings of a world with consumers. */
export interface ReadersSettings {
  readonly readers: readonly Reader[]
  /** The lease of handlers that call the outside world, or null if every handler runs in one transaction. */
  readonly readerLeaseMs: number | null
  /** An operator redrives and discards dead letters. */
  readonly redrives: boolean
  /** While a message runs, the broker delivers it to another process, which parks it at once. */
  readonly rivals: boolean
}

export interface ReadersWanted {
  /** The world has two consumers with names that look alike. */
  readonly readers?: boolean
  readonly redrives?: boolean
  /** Never chosen at random. */
  readonly rivals?: boolean
}

export function drawReaders(dice: Dice, { readers, redrives, rivals = false }: ReadersWanted): ReadersSettings {
  const leased = dice.chance(rivals ? 0.5 : LEASED_SHARE)
  return {
    readers: readers || dice.chance(CROSSING_SHARE) ? CROSSING : [READER],
    readerLeaseMs: leased ? 100 + dice.below(300) : null,
    redrives: redrives || dice.chance(REDRIVES_SHARE),
    rivals,
  }
}

export const NO_READERS: ReadersSettings = { readers: [], readerLeaseMs: null, redrives: false, rivals: false }

/** Worlds with redrives must have dead letters. */
export function withLetters(dice: Dice, consumer: ConsumerSettings): ConsumerSettings {
  const { onFailure, trouble } = consumer
  return {
    ...consumer,
    onFailure: onFailure === 'block' ? 'park' : onFailure,
    attempts: Math.min(consumer.attempts, 2),
    trouble: Math.max(trouble, dice.between(0.2, 0.6)),
  }
}

/**
 * The broker redelivers before the handler ends, but not before a round trip. Most handlers fail, and one failed
 * attempt parks the message.
 */
export function withRivals(dice: Dice, consumer: ConsumerSettings): ConsumerSettings {
  return {
    ...withLetters(dice, consumer),
    attempts: 1,
    holdsForMs: 40 + dice.below(60),
    extends: false,
    batch: 1 + dice.below(3),
    concurrency: 2 + dice.below(3),
    trouble: dice.between(0.4, 0.8),
  }
}

/** The name of an event as one reader sees it. The first reader uses plain event names. */
export function tagOf(reader: string, event: string): string {
  return reader === READER.name ? event : `${event}@${reader}`
}

/** The reader and the event of such a name. */
export function untagged(tag: string): { readonly reader: string; readonly event: string } {
  const [event, reader] = tag.split('@', 2) as [string, string?]
  return { event, reader: reader ?? READER.name }
}
