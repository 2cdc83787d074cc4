/** Single operations for the page: a row for each of the newest, and details of a selected one. */
import type { SqlTx } from 'effectively-once/sqlite'
import type { Intent } from './intent.ts'

/** How many rows each stage has for one operation. */
export interface OperationRow {
  readonly causation: string
  readonly round: number
  readonly amount: number
  readonly requests: number
  /** 1 when the customer has an answer. */
  readonly answered: number
  readonly key: number
  readonly charges: number
  readonly events: number
  readonly deliveries: number
  readonly receipts: number
}

const NEWEST = `select i.causation, i.round, i.amount, i.requests, i.answered_at is not null as answered,
    (select count(distinct c.operation) from charges c join effectively_once_record k on k.id = c.operation
      where c.round = i.round and c.causation = i.causation) as key,
    (select count(*) from charges c where c.round = i.round and c.causation = i.causation) as charges,
    (select count(*) from events e where e.round = i.round and e.causation = i.causation) as events,
    (select coalesce(sum(d.delivered), 0) from deliveries d where d.round = i.round and d.causation = i.causation) as deliveries,
    (select count(*) from receipts r where r.round = i.round and r.causation = i.causation) as receipts
  from intents i`

export async function newestOperations(tx: SqlTx, round: number, limit: number): Promise<readonly OperationRow[]> {
  const sql = `${NEWEST} where i.round = $1 order by i.made_at desc, i.causation desc limit $2`
  return (await tx.query<OperationRow>(sql, [round, limit])).rows
}

/** In the order in which one leads to the next. Within a millisecond, this order counts. */
const STAGES = ['intent', 'request', 'key', 'ledger', 'outbox', 'answer', 'broker', 'receipt'] as const
type Stage = (typeof STAGES)[number]

/** One thing that happened to an operation. */
export interface Happening {
  readonly at: number
  readonly stage: Stage
  readonly what: string
  readonly id?: string
}

export interface Followed {
  readonly causation: string
  readonly round: number
  readonly amount: number
  readonly happenings: readonly Happening[]
}

const OUTCOMES = {
  ran: 'the handler ran',
  replayed: 'a replay: nothing ran',
  conflict: 'refused for now: its first request still runs',
  lost: 'sent by the shop, and lost on its way',
  failed: 'none came',
  refused: 'refused',
}

interface Stored {
  readonly at: number
  readonly id: string | number
  readonly n?: number
}

/** Everything that happened to one causation id, in order. */
export async function follow(tx: SqlTx, intent: Intent): Promise<Followed> {
  const { causation, round, amount, madeAt, vertices } = intent
  const find = async (sql: string): Promise<readonly Stored[]> => (await tx.query<Stored>(sql, [round, causation])).rows
  const charges = await find('select id, made_at as at from charges where round = $1 and causation = $2')
  const keys = await find(`select distinct k.id, c.made_at as at from charges c
    join effectively_once_record k on k.id = c.operation where c.round = $1 and c.causation = $2`)
  const outbox = await find('select id, made_at as at from events where round = $1 and causation = $2')
  const broker = await find(
    'select event as id, arrived_at as at, delivered as n from deliveries where round = $1 and causation = $2',
  )
  const receipts = await find('select id, made_at as at from receipts where round = $1 and causation = $2')
  const published = vertices.outbox ? 'event, in the same transaction' : 'event, sent beside the transaction'
  const happenings: Happening[] = [
    { at: madeAt, stage: 'intent', what: `a customer wants to be charged ${amount}, once` },
    ...intent.requests.flatMap(({ at, endedAt, outcome, status }): Happening[] => [
      { at, stage: 'request', what: 'sent' },
      { at: endedAt, stage: 'answer', what: OUTCOMES[outcome] + (status === undefined ? '' : ` (${status})`) },
    ]),
    ...keys.map(({ at, id }): Happening => ({
      at,
      stage: 'key',
      what: 'record, in the same transaction',
      id: String(id),
    })),
    ...charges.map(({ at, id }): Happening => ({ at, stage: 'ledger', what: `charge #${id}` })),
    ...outbox.map(({ at, id }): Happening => ({ at, stage: 'outbox', what: published, id: String(id) })),
    ...broker.map(({ at, id, n = 0 }): Happening => {
      return { at, stage: 'broker', what: `arrived; delivered ${n} ${n === 1 ? 'time' : 'times'}`, id: String(id) }
    }),
    ...receipts.map(({ at, id }): Happening => ({ at, stage: 'receipt', what: `receipt #${id}` })),
  ]
  const rank = ({ stage }: Happening): number => STAGES.indexOf(stage)
  return { causation, round, amount, happenings: happenings.sort((a, b) => a.at - b.at || rank(a) - rank(b)) }
}
