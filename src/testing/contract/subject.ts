import type { SqlStore, Store, UserStatement } from '../../store/store.ts'

/**
 * A store under test. A store with transactions has a table of effects beside it: `effect` writes a row for the key
 * through the transaction, `effects` counts the committed ones. What is left out is skipped, and the report says so.
 */
export interface StoreSubject<Tx> {
  readonly store: Store<Tx>
  effect?(tx: Tx, key: string): Promise<void>
  effects?(key: string): Promise<number>
  /** The effect of a batched request as a statement. */
  readonly statement?: (key: string) => UserStatement
  /** A statement that fails, whatever the others do. */
  readonly poison?: () => UserStatement
  /** Makes a statement of this transaction fail, and swallows the error. */
  readonly fail?: (tx: Tx) => Promise<void>
  /** A transaction of the user's own, committed when the work resolves. */
  readonly transaction?: <R>(work: (tx: Tx) => Promise<R>) => Promise<R>
  /** Takes every stored answer away and leaves the records. */
  readonly dropAnswers?: () => Promise<void>
  close(): Promise<void>
}

/** One case. Resolves with a reason when this store does not promise it. */
export interface ContractCase {
  readonly name: string
  run(): Promise<{ readonly skipped: string } | undefined>
}

/** A part of the Store seam that a store may leave out. `search`: lapsed and unknown operations are listed. */
export type OptionalPart =
  'transactions' | 'search' | 'batches' | 'outbox' | 'inbox' | 'namespaces' | 'retention' | 'schema'

export interface Case {
  readonly name: string
  /** A store that lacks one of these is not asked. */
  readonly needs?: readonly OptionalPart[]
  /** Why this store is not asked; null when it is. */
  readonly unless?: (subject: SqlSubject) => string | null
  test(subject: SqlSubject): Promise<void>
}

/** What a case sees: the parts that it needs are there. */
export interface SqlSubject extends StoreSubject<unknown> {
  readonly store: SqlStore<unknown>
  effect(tx: unknown, key: string): Promise<void>
  effects(key: string): Promise<number>
}

/** Cases that all need the same parts. */
export function needing(parts: readonly OptionalPart[], cases: readonly Case[]): readonly Case[] {
  return cases.map((of) => ({ ...of, needs: [...parts, ...(of.needs ?? [])] }))
}

/** Why a store is not asked; null when it has what the case needs. */
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
