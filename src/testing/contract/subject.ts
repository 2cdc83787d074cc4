import type { SqlStore, Store, UserStatement } from '../../store/store.ts'

/**
 * A store under test. A store with transactions also needs a table of effects: `effect` writes a row for the key
 * through the transaction, and `effects` counts the committed rows. Cases that need an absent member are skipped, and
 * the report says so.
 */
export interface StoreSubject<Tx> {
  readonly store: Store<Tx>
  effect?(tx: Tx, key: string): Promise<void>
  effects?(key: string): Promise<number>
  /** The effect of a batched request, as a statement. */
  readonly statement?: (key: string) => UserStatement
  /** A statement that always fails. */
  readonly poison?: () => UserStatement
  /** Makes a statement of this transaction fail, and swallows the error. */
  readonly fail?: (tx: Tx) => Promise<void>
  /** Runs the work in a transaction of the user's own, and commits when the work resolves. */
  readonly transaction?: <R>(work: (tx: Tx) => Promise<R>) => Promise<R>
  /** Deletes every stored answer and keeps the records. */
  readonly dropAnswers?: () => Promise<void>
  close(): Promise<void>
}

/** One case. It resolves with a reason when the store does not make this promise. */
export interface ContractCase {
  readonly name: string
  run(): Promise<{ readonly skipped: string } | undefined>
}

/** A part of the Store interface that a store may leave out. `search` lists lapsed and unknown operations. */
export type OptionalPart =
  | 'transactions'
  | 'search'
  | 'batches'
  | 'outbox'
  | 'inbox'
  | 'erasure'
  | 'streams'
  | 'namespaces'
  | 'retention'
  | 'schema'

export interface Case {
  readonly name: string
  /** The case is skipped for a store that lacks one of these parts. */
  readonly needs?: readonly OptionalPart[]
  /** The reason to skip this store, or null to run the case. */
  readonly unless?: (subject: SqlSubject) => string | null
  test(subject: SqlSubject): Promise<void>
}

/** A subject as the cases see it: the parts that the case needs are present. */
export interface SqlSubject extends StoreSubject<unknown> {
  readonly store: SqlStore<unknown>
  effect(tx: unknown, key: string): Promise<void>
  effects(key: string): Promise<number>
}

/** Adds the same needed parts to several cases. */
export function needing(parts: readonly OptionalPart[], cases: readonly Case[]): readonly Case[] {
  return cases.map((of) => ({ ...of, needs: [...parts, ...(of.needs ?? [])] }))
}

/** The reason to skip this store, or null when it has every part that the case needs. */
export function missing({ store, effect, effects }: StoreSubject<unknown>, { needs = [] }: Case): string | null {
  for (const part of needs) {
    const has =
      part === 'transactions'
        ? store.features.transactional && effect && effects
        : part === 'search'
          ? store.leases.lapsed && store.leases.unknown
          : store[part]
    if (!has) return `the store has no ${part}`
  }
  return null
}

export const oneWriter = ({ store }: SqlSubject): string | null =>
  store.features.concurrentClaims ? null : 'one writer at a time: a duplicate waits'

export function lacks(what: 'statement' | 'poison' | 'fail' | 'transaction' | 'dropAnswers') {
  return (subject: SqlSubject): string | null => (subject[what] === undefined ? `the subject has no \`${what}\`` : null)
}
