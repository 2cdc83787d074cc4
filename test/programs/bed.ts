import { effectivelyOnce, event, type Once, type SqlStore } from '../../src/index.ts'
import type { Seen } from './judge/seen.ts'
import type { Lock, RowFault, StoreName, Via } from './program.ts'

/** A store that programs are played on, and how its database is looked at from beside. */
export interface Bed {
  readonly store: StoreName
  /** Where one program at a time is played: nothing but the database is shared between two lanes. */
  place(lane: number): Promise<Place>
  /** For a process of its own, which may be killed; null where the database would die with it. */
  readonly address: Address | null
  /** A small write of its own, which waits for nobody: it tells how quickly the database answers. */
  probe(): Promise<unknown>
  close(): Promise<void>
}

export interface Address {
  readonly store: StoreName
  readonly url: string
}

// oxlint-disable-next-line no-explicit-any -- every store has its own transaction type; programs only pass it on
export type Tx = any

export type Shop = Once<Tx, typeof EVENTS>

export interface Place {
  /** For the title of a printed program. */
  readonly title: string
  readonly instances: Readonly<Record<Via, Shop>>
  /** An instance with a namespace of its own: nobody else's events are in its outbox, but for those of earlier programs. */
  readonly alone: Shop
  /** One batcher for each instance, so that calls share batches. */
  readonly batched: Readonly<Record<Via, (operation: BatchedCall) => Promise<unknown>>>
  statement(row: EffectRow): { sql: string; values: unknown[] }
  write(tx: Tx, row: EffectRow): Promise<unknown>
  /** A statement without values. */
  run(tx: Tx, sql: string): Promise<unknown>
  /** A transaction of the user's own; throws `NotCommitted` when the database rolled it back instead. */
  own<R>(work: (tx: Tx) => Promise<R>): Promise<R>
  read(of: Reading): Promise<Seen>
  /** The program is over. */
  leave(): void
}

export interface EffectRow {
  readonly uid: string
  readonly program: string
  readonly fault: RowFault | null
  readonly lock: Lock
}

export interface Reading {
  readonly program: string
  readonly ids: readonly string[]
  readonly messages: readonly string[]
}

/** Its batch calls back into whoever plays it. */
export interface BatchedCall {
  readonly scope: string
  readonly key: string
  readonly input: BatchedInput
  readonly deadline?: '1s' | '6s'
  readonly replayFor?: '2d'
}

export interface BatchedInput {
  readonly amount: number
}

export interface BatchedPlay {
  statement(): { sql: string; values: unknown[] }
  respond(publish: (type: 'made', data: Made) => Promise<string>): unknown
}

/** By the very object that was given as input: it is not part of the input's meaning. */
export const batchedPlays: WeakMap<BatchedInput, BatchedPlay> = new WeakMap<BatchedInput, BatchedPlay>()

export interface Made {
  readonly program: string
  readonly uid: string
  readonly extra?: unknown
}

/** `sent`: what consumers of the outbox are for. What their handlers publish in turn is not. */
export const EVENTS = { made: event<Made>(({ program }) => program), sent: event<Made>(({ program }) => program) }

/** Longer than anything here takes: who meets it was kept waiting. */
const DEADLINE: Deadline = '5s'

export type Deadline = '5s' | '250ms'

export class NotCommitted extends Error {}

export function instancesOn(
  store: SqlStore<Tx>,
  lane: number,
  deadline: Deadline = DEADLINE,
): Pick<Place, 'instances' | 'batched' | 'alone'> {
  const open = (namespace: string): Shop =>
    effectivelyOnce({ namespace, store, events: EVENTS, guard: 'off', sweep: false, deadline })
  const instances = { shop: open('shop'), twin: open('shop'), bank: open('bank') }
  return {
    instances,
    alone: open(`alone-${process.pid}-${lane}`),
    batched: { shop: batchedOf(instances.shop), twin: batchedOf(instances.twin), bank: batchedOf(instances.bank) },
  }
}

function batchedOf(shop: Shop): (operation: BatchedCall) => Promise<unknown> {
  const playOf = (input: BatchedInput): BatchedPlay => {
    const play = batchedPlays.get(input)
    if (!play) throw new Error('a batch asks for an input that nobody gave')
    return play
  }
  return shop.batched<BatchedInput, unknown>({
    statement: (input) => playOf(input).statement(),
    respond: (_rows, input, { publish }) => playOf(input).respond(publish),
  })
}
