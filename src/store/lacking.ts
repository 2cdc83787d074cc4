import { onceError, type OnceError } from '../errors.ts'
import type { Session, SqlSession, Store, Transactions } from './store.ts'

const SQL_STORE: string = 'a SQL store such as pgStore(pool) or sqliteStore({ file })'

/** The parts that an operation may need of a store. */
export type StoreNeed =
  | 'atomic'
  | 'publish'
  | 'stepTx'
  | 'join'
  | 'nested'
  | 'batched'
  | 'outbox'
  | 'listen'
  | 'parked'
  | 'consumer'
  | 'atomicConsumer'
  | 'deadLetters'
  | 'redrive'
  | 'recover'
  | 'unknown'
  | 'operations'
  | 'steps'
  | 'status'
  | 'migrate'
  | 'sweep'
  | 'erase'
  | 'streams'

/** What a missing part means, and what to use instead. Each text continues the sentence "The NAME store …". */
const LACKING: Record<StoreNeed, string> = {
  atomic: `has no transactions: give the operation a lease, such as { lease: '30s' }, or use ${SQL_STORE}`,
  publish: `has no transactions to publish events in: leave events out, or use ${SQL_STORE}`,
  stepTx: `has no transactions for step.tx: make the call in a plain step, or use ${SQL_STORE}`,
  join: `has no transactions to join: use run() with a lease, or ${SQL_STORE}`,
  nested: `cannot nest operations in a transaction: run them one after the other, or use ${SQL_STORE}`,
  batched: `has no batches: use run(), or ${SQL_STORE}`,
  outbox: `has no outbox: send your messages from a step of a leased operation, or use ${SQL_STORE}`,
  listen: 'cannot notify other processes: leave listen out, and relays poll',
  parked: `cannot settle parked events: use ${SQL_STORE}`,
  consumer: `has no inbox: run each message as a leased operation under its id, or use ${SQL_STORE}`,
  atomicConsumer: `has no transactions: give the consumer a lease, such as { lease: '30s' }, or use ${SQL_STORE}`,
  deadLetters: `has no dead letters: use ${SQL_STORE}`,
  redrive: `has no redrives: use ${SQL_STORE}`,
  recover: `cannot search for lapsed operations: let callers retry, or use ${SQL_STORE}`,
  unknown: `cannot search for unknown operations: settle them by scope and key, or use ${SQL_STORE}`,
  operations: `cannot search for operations: settle them by scope and key, or use ${SQL_STORE}`,
  steps: `cannot search for recorded steps: keep a list of your own calls, or use ${SQL_STORE}`,
  status: `cannot report its status: use ${SQL_STORE}`,
  migrate: 'has nothing to migrate: do not call migrate()',
  sweep: 'removes records by itself: do not call sweep()',
  streams: `cannot record streams: leave streams: 'record' out, or use ${SQL_STORE}`,
  erase: `cannot erase the data of a scope: use ${SQL_STORE}`,
}

/** The error for a part that a store does not have. */
function lacking({ name }: Pick<Store<unknown>, 'name'>, need: StoreNeed): OnceError {
  return onceError('ONCE_UNSUPPORTED', { detail: `The ${name} store ${LACKING[need]}` })
}

/** Returns a part of the store, or throws the refusal. */
export function required<T>(store: Pick<Store<unknown>, 'name'>, part: T | null | undefined, need: StoreNeed): T {
  if (part === undefined || part === null) throw lacking(store, need)
  return part
}

/** The store's transactions. Null: it has none, or its effects do not share them. */
export function transactionsOf<Tx>(store: Store<Tx>): Transactions<Tx> | null {
  return store.features.transactional ? (store as Store<Tx> & Transactions<Tx>) : null
}

/** Returns the session if operations can be nested in it, or throws the refusal. */
export function nestable<Tx>(store: Pick<Store<Tx>, 'name'>, session: Session<Tx>, need: StoreNeed): SqlSession<Tx> {
  if (!('savepoint' in session)) throw lacking(store, need)
  return session as SqlSession<Tx>
}
