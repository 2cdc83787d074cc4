import type { Dice } from './dice.ts'
import type { ConsumerSettings } from './outbox-plan.ts'

/** A consumer, and where its messages say they come from. */
export interface Reader {
  readonly name: string
  readonly source: string
}

const READER: Reader = { name: 'reader', source: 'sim' }
/** The same messages for both: written one after the other, name, source and id read the same. */
const CROSSING: readonly Reader[] = [
  { name: READER.name, source: `s${READER.source}` },
  { name: `${READER.name}s`, source: READER.source },
]
const CROSSING_SHARE = 0.15
const LEASED_SHARE = 0.2
const REDRIVES_SHARE = 0.25

/** What a world with consumers has beside them. */
export interface ReadersSettings {
  readonly readers: readonly Reader[]
  /** Handlers call the outside world under a lease; null: everything in one transaction. */
  readonly readerLeaseMs: number | null
  /** Somebody redrives and discards dead letters. */
  readonly redrives: boolean
  /** Messages come to others while they run, who give them up at once. */
  readonly rivals: boolean
}

export interface ReadersWanted {
  /** Two consumers with names that look alike. */
  readonly readers?: boolean
  readonly redrives?: boolean
  /** Never by chance. */
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

/** Where letters are redriven, there must be some. */
export function withLetters(dice: Dice, consumer: ConsumerSettings): ConsumerSettings {
  const { onFailure, trouble } = consumer
  return {
    ...consumer,
    onFailure: onFailure === 'block' ? 'park' : onFailure,
    attempts: Math.min(consumer.attempts, 2),
    trouble: Math.max(trouble, dice.between(0.2, 0.6)),
  }
}

/** Held for less than a handler takes, but not for less than the way there and back; failing as a rule, and given up after one attempt. */
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

/** What one reader did with an event: the first reader's events have their own names. */
export function tagOf(reader: string, event: string): string {
  return reader === READER.name ? event : `${event}@${reader}`
}

/** Of a tagged event: whose it is, and which. */
export function untagged(tag: string): { readonly reader: string; readonly event: string } {
  const [event, reader] = tag.split('@', 2) as [string, string?]
  return { event, reader: reader ?? READER.name }
}
