/**
 * The audit compares intents, charges, events and receipts by plain SQL in one transaction. Nothing is estimated. A
 * duplicate is an extra row. A loss is a missing row that can no longer come.
 */
import type { SqlTx } from 'effectively-once/sqlite'

/** What went wrong between one table and the next: at the key, the outbox, the inbox. */
export interface Leak {
  readonly duplicates: number
  readonly losses: number
}

export interface RoundAudit {
  readonly intents: number
  readonly answered: number
  readonly requests: number
  readonly replays: number
  readonly conflicts: number
  readonly keys: number
  readonly charges: number
  readonly events: number
  readonly deliveries: number
  readonly receipts: number
  /** Events that have no receipt yet. */
  readonly waiting: number
  readonly leaks: { readonly key: Leak; readonly outbox: Leak; readonly inbox: Leak }
}

const INTENTS = `select count(*) as intents, count(answered_at) as answered, coalesce(sum(requests), 0) as requests,
  coalesce(sum(replays), 0) as replays, coalesce(sum(conflicts), 0) as conflicts from intents where round = $1`

const KEYS = `select count(distinct c.operation) as n from charges c
  join effectively_once_record k on k.id = c.operation where c.round = $1`

/** One charge per intent, one event per charge, one receipt per event: every further row is a duplicate. */
const EXTRA = {
  charges: `select coalesce(sum(n), 0) as n, coalesce(sum(n - 1), 0) as extra
    from (select count(*) as n from charges where round = $1 group by causation)`,
  events: `select coalesce(sum(n), 0) as n, coalesce(sum(n - 1), 0) as extra
    from (select count(*) as n from events where round = $1 group by charge)`,
  receipts: `select coalesce(sum(n), 0) as n, coalesce(sum(n - 1), 0) as extra
    from (select count(*) as n from receipts where round = $1 group by event)`,
}

const LOST = {
  /** The customer got the answer "charged", but was not charged. */
  charges: `select count(*) as n from intents i where i.round = $1 and i.answered_at is not null
    and not exists (select 1 from charges c where c.round = $1 and c.causation = i.causation)`,
  /** A charge without an event in the outbox or at the broker, after the only process that knew of it has died. */
  events: `select count(*) as n from charges c where c.round = $1 and c.boot < $2
    and not exists (select 1 from events e where e.round = $1 and e.charge = c.id)`,
  /** The event was acknowledged to the broker, but there is no receipt. */
  receipts: `select count(*) as n from deliveries d where d.round = $1 and d.acknowledged > 0
    and not exists (select 1 from receipts r where r.round = $1 and r.event = d.event)`,
}

const DELIVERED = 'select coalesce(sum(delivered), 0) as n from deliveries where round = $1'

const WAITING = `select count(*) as n from events e where e.round = $1
  and not exists (select 1 from receipts r where r.round = $1 and r.event = e.id)`

/** `goneBefore`: shop processes with a smaller number are dead. */
export async function auditRound(tx: SqlTx, round: number, goneBefore: number): Promise<RoundAudit> {
  const one = async (sql: string, values: readonly unknown[] = [round]): Promise<Record<string, number>> => {
    const { rows } = await tx.query<Record<string, unknown>>(sql, values)
    return Object.fromEntries(Object.entries(rows[0] ?? {}).map(([name, value]) => [name, Number(value)]))
  }
  const n = async (sql: string, values?: readonly unknown[]): Promise<number> => (await one(sql, values))['n'] ?? 0
  const { intents = 0, answered = 0, requests = 0, replays = 0, conflicts = 0 } = await one(INTENTS)
  const { n: charges = 0, extra: extraCharges = 0 } = await one(EXTRA.charges)
  const { n: events = 0, extra: extraEvents = 0 } = await one(EXTRA.events)
  const { n: receipts = 0, extra: extraReceipts = 0 } = await one(EXTRA.receipts)
  return {
    intents,
    answered,
    requests,
    replays,
    conflicts,
    keys: await n(KEYS),
    charges,
    events,
    deliveries: await n(DELIVERED),
    receipts,
    waiting: await n(WAITING),
    leaks: {
      key: { duplicates: extraCharges, losses: await n(LOST.charges) },
      outbox: { duplicates: extraEvents, losses: await n(LOST.events, [round, goneBefore]) },
      inbox: { duplicates: extraReceipts, losses: await n(LOST.receipts) },
    },
  }
}
