import type { Store, UserStatement } from '../../store/store.ts'

/**
 * A store under test, with a table of effects beside it: `effect` writes a row for the key through the transaction,
 * `effects` counts the committed ones. What is left out is skipped, and the report says so.
 */
export interface StoreSubject<Tx> {
  readonly store: Store<Tx>
  effect(tx: Tx, key: string): Promise<void>
  effects(key: string): Promise<number>
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

export interface Case {
  readonly name: string
  /** Why this store is not asked; null when it is. */
  readonly unless?: (subject: StoreSubject<unknown>) => string | null
  test(subject: StoreSubject<unknown>): Promise<void>
}

export const oneWriter = ({ store }: StoreSubject<unknown>): string | null =>
  store.features.concurrentClaims ? null : 'one writer at a time: a duplicate waits'

export function lacks(what: 'statement' | 'poison' | 'fail' | 'transaction' | 'dropAnswers') {
  return (subject: StoreSubject<unknown>): string | null =>
    subject[what] === undefined ? `the subject has no \`${what}\`` : null
}
