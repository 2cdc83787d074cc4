import { frame } from '../../key/frame.ts'
import type { LetterState, StoredLetter } from '../dead-letters.ts'
import type { AttemptEntry } from '../inbox.ts'
import type { RedriveOutcome, RedriveState } from '../redrives.ts'

/** The group that knows all namespaces, consumers and redrives. Every consumer has its own group, under its name. */
export const REGISTRY = ''

/** The fields of the registry. */
export const NAMESPACES = 'namespaces'
export const CONSUMERS = 'consumers'
export const REDRIVES_MADE = 'redrives'
export const AUDITED = 'audited'
export const redriveConsumer = (redrive: number): string => `redrive:${redrive}`
export const auditField = (no: number): string => `audit:${no}`

/** The fields of a consumer. */
export const CONSUMER = 'consumer'
export const SEEN = 'seen'
export const SWEPT = 'swept'
/** The number of the last letter. */
export const LAST = 'last'
/** No letter has a lower number. */
export const FIRST = 'first'
export const ACTIVE = 'active'
/** The number of the letter with this id. */
export const idField = (id: string): string => `id:${id}`
export const headField = (no: number): string => `letter:${no}`
export const restField = (no: number): string => `body:${no}`
/** How many letters of the aggregate are parked. */
export const parkedField = (source: string, aggregate: string): string => `parked:${frame(source)}${aggregate}`
export const triesField = (id: string): string => `tries:${id}`
export const positionsField = (source: string): string => `positions:${source}`
export const redriveField = (redrive: number): string => `redrive:${redrive}`
export const itemField = (redrive: number, ord: number): string => `item:${redrive}:${ord}`
export const copyField = (redrive: number, ord: number): string => `copy:${redrive}:${ord}`

export interface ConsumerRow {
  readonly rememberForMs: number
  readonly lettersForMs: number
}

type Rest = 'body' | 'shown' | 'headers' | 'traceparent' | 'causes' | 'timeline'

/** What filters look at. */
export type HeadRow = Omit<StoredLetter, Rest | 'blocks' | 'seq' | 'consumer'> & { readonly state: LetterState }
/** The larger parts of a letter, which are read only to show or run it. */
export type RestRow = Pick<StoredLetter, Rest>

/** The aggregate that a letter belongs to. */
export type Place = Pick<HeadRow, 'source' | 'aggregate'>

export function placeOf({ source, aggregate }: Place): string {
  return JSON.stringify([source, aggregate])
}

export interface TriesRow {
  readonly attempts: number
  readonly unfinished: number
  readonly timeline: readonly AttemptEntry[]
}

export interface RedriveRow {
  readonly state: RedriveState
  readonly round: number
  readonly token: number
  readonly leaseUntil: number
  readonly rate: number
  readonly pauseAt: number
  readonly canary: number
  readonly canaryStops: boolean
  /** Letters that were decided in this round, and how many of them failed. */
  readonly decided: number
  readonly failed: number
  readonly reason: string | null
  readonly by: string
  readonly why: string
  readonly createdAt: number
  readonly endedAt: number | null
  /** How many letters the redrive has. */
  readonly items: number
  readonly counts: Readonly<Record<RedriveOutcome, number>>
  /** It has changed copies. */
  readonly copied: boolean
}

export interface ItemRow {
  /** The letter's number. */
  readonly letter: number
  readonly state: RedriveOutcome
  readonly starts: number
}

export function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i)
}
