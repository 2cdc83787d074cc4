import { sqliteStore } from 'effectively-once/sqlite'

/** Milliseconds of the database's clock. */
export const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

/**
 * One file for everything, so that the audit can use plain SQL over all tables. None of these tables has a constraint
 * that would prevent a duplicate: only the library prevents duplicates.
 */
const TABLES = [
  // What customers want: one row is one charge, however often it is requested.
  `create table intents (
  causation text primary key,
  round integer not null,
  amount integer not null,
  made_at integer not null,
  requests integer not null,
  replays integer not null,
  conflicts integer not null,
  answered_at integer
) without rowid`,
  'create index intents_round on intents (round)',
  // The shop's ledger. operation: the hashed identity of its key, or null without a key. boot: the process that ran it.
  `create table charges (
  id integer primary key,
  causation text not null,
  round integer not null,
  amount integer not null,
  operation text,
  boot integer not null,
  made_at integer not null default (${NOW})
)`,
  'create index charges_causation on charges (round, causation)',
  // Every event, from the outbox or directly from the shop, as the audit found it.
  `create table events (
  id text primary key,
  causation text not null,
  charge integer not null,
  round integer not null,
  via text not null,
  made_at integer not null
) without rowid`,
  'create index events_charge on events (round, charge)',
  'create index events_causation on events (round, causation)',
  // What the broker did with each event.
  `create table deliveries (
  event text primary key,
  causation text not null,
  round integer not null,
  arrived_at integer not null,
  arrivals integer not null,
  delivered integer not null,
  acknowledged integer not null
) without rowid`,
  'create index deliveries_causation on deliveries (round, causation)',
  // What the receipts service did.
  `create table receipts (
  id integer primary key,
  event text not null,
  charge integer not null,
  causation text not null,
  round integer not null,
  made_at integer not null default (${NOW})
)`,
  'create index receipts_event on receipts (round, event)',
  'create index receipts_causation on receipts (round, causation)',
]

export async function createTables(file: string): Promise<void> {
  const store = sqliteStore({ file })
  await store.schema.migrate()
  await store.transaction(async (tx) => {
    for (const statement of TABLES) await tx.query(statement)
  })
  await store.close()
}
