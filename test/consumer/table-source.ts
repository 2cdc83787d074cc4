import type pg from 'pg'
import { EnvelopeDelivery } from '../../src/source/envelope.ts'
import type { Delivery, PulledSource, ReceivedEvent } from '../../src/source/source.ts'

/** How long a killed process keeps what it had. */
const HOLDS_FOR_MS = 2_000

interface QueueRow {
  readonly no: string
  readonly body: string
  readonly delivered: number
}

class TableDelivery extends EnvelopeDelivery {
  readonly no: string
  constructor({ no, body, delivered }: QueueRow) {
    super({ body, headers: {}, place: no, source: 'queue' }, { delivered, redelivered: delivered > 1 })
    this.no = no
  }
}

export const QUEUE = `create table if not exists queue (
  no bigserial primary key, body text not null, delivered int not null default 0, owner text,
  free_at timestamptz not null default '-infinity'
)`

/** Whoever lost them to somebody else leaves them alone. Nobody waits for a lock. */
const MINE = `no in (select no from queue where no = any($1::bigint[]) and owner = $2 order by no for update skip locked)`

/** A broker in a table, for several processes, with redelivery of what a killed process held. */
export function tableSource(
  pool: pg.Pool,
): PulledSource<{ 'step.made': ReceivedEvent<'step.made', { aggregate: string; n: number }> }> {
  const owner = String(process.pid)
  const free = async (deliveries: readonly Delivery[], ms: number): Promise<void> => {
    const numbers = (deliveries as readonly TableDelivery[]).map(({ no }) => no)
    const text = `update queue set free_at = now() + $3::int * interval '1 ms' where ${MINE}`
    await pool.query(text, [numbers, owner, ms])
  }
  return {
    name: 'queue',
    kind: 'pulled',
    redeliversFor: '1d',
    holdsFor: `${HOLDS_FOR_MS}ms`,
    features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
    open: async () => ({
      async receive({ max, waitMs, signal }) {
        const until = performance.now() + waitMs
        for (;;) {
          const { rows } = await pool.query<QueueRow>(
            `update queue set delivered = delivered + 1, owner = $3, free_at = now() + $2::int * interval '1 ms' where no in (
               select no from queue where free_at <= now() order by no limit $1 for update skip locked)
             returning no, body, delivered`,
            [Math.min(max, 64), HOLDS_FOR_MS, owner],
          )
          if (rows.length > 0 || signal.aborted || performance.now() > until) {
            return rows.map((row) => new TableDelivery(row))
          }
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
      },
      async ack(deliveries) {
        const numbers = (deliveries as readonly TableDelivery[]).map(({ no }) => no)
        const text = `delete from queue where no in (select no from queue where no = any($1::bigint[]) order by no for update)`
        await pool.query(text, [numbers])
      },
      giveBack: (deliveries, { delayMs }) => free(deliveries, delayMs),
      extend: (deliveries) => free(deliveries, HOLDS_FOR_MS),
      close: async () => {},
    }),
  }
}
