/** Writes everything that is known outside the services into the same database, before each audit. */
import type { SqlTx } from 'effectively-once/sqlite'
import type { Logged } from './broker.ts'
import type { Intent } from './intent.ts'

const INTENT = `insert into intents (causation, round, amount, made_at, requests, replays, conflicts, answered_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8)
  on conflict (causation) do update set requests = excluded.requests, replays = excluded.replays,
    conflicts = excluded.conflicts, answered_at = excluded.answered_at`

/** New rows of the outbox table. With one writer, the order of `seq` is the order of commits. */
const FROM_OUTBOX = `insert or ignore into events (id, causation, charge, round, via, made_at)
  select id, json_extract(payload, '$.causation'), json_extract(payload, '$.charge'),
    json_extract(payload, '$.round'), 'outbox', created_at
  from effectively_once_event where seq > $1`
const LAST_SEQ = 'select coalesce(max(seq), 0) as seq from effectively_once_event'

const FROM_BROKER = `insert or ignore into events (id, causation, charge, round, via, made_at)
  values ($1, $2, $3, $4, 'beside', $5)`
const DELIVERY = `insert into deliveries (event, causation, round, arrived_at, arrivals, delivered, acknowledged)
  values ($1, $2, $3, $4, $5, $6, $7)
  on conflict (event) do update set arrivals = excluded.arrivals, delivered = excluded.delivered,
    acknowledged = excluded.acknowledged`

const TABLES = ['intents', 'charges', 'events', 'deliveries', 'receipts']

export class Journal {
  #seq = 0

  async write(tx: SqlTx, intents: readonly Intent[], logged: readonly Logged[]): Promise<void> {
    for (const { causation, round, amount, madeAt, requestCount, replays, conflicts, answeredAt } of intents) {
      await tx.query(INTENT, [causation, round, amount, madeAt, requestCount, replays, conflicts, answeredAt])
    }
    await tx.query(FROM_OUTBOX, [this.#seq])
    this.#seq = Number((await tx.query<{ seq: number }>(LAST_SEQ)).rows[0]?.seq)
    for (const { message, data, arrivedAt, arrivals, delivered, acknowledged } of logged) {
      // An event that is not in the outbox was sent without it.
      await tx.query(FROM_BROKER, [message.id, data.causation, data.charge, data.round, arrivedAt])
      const row = [message.id, data.causation, data.round, arrivedAt, arrivals, delivered, acknowledged]
      await tx.query(DELIVERY, row)
    }
  }

  /** Rows of rounds that are no longer shown. */
  async forget(tx: SqlTx, olderThanRound: number): Promise<void> {
    for (const table of TABLES) await tx.query(`delete from ${table} where round < $1`, [olderThanRound])
  }
}
