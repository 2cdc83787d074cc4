import type pg from 'pg'
import { EnvelopeDelivery } from '../../src/source/envelope.ts'
import type { Delivery, PulledSource, ReceivedEvent } from '../../src/source/source.ts'

/** How long a killed process keeps what it had. */
const HOLDS_FOR_MS = 1_500

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
  no bigserial primary key, body text not null, place float8 not null default random(), delivered int not null default 0,
  free_at timestamptz not null default '-infinity'
)`

export interface Flaws {
  /** Acknowledged when it is received: before the commit. */
  readonly ackFirst?: boolean
}

/** A broker in a table, for several processes: in random order, with redelivery of what a killed process held. */
export function tableSource(
  pool: pg.Pool,
  flaws: Flaws = {},
): PulledSource<{ 'step.made': ReceivedEvent<'step.made', { aggregate: string; n: number }> }> {
  const done = async (deliveries: readonly Delivery[]): Promise<void> => {
    const numbers = (deliveries as readonly TableDelivery[]).map(({ no }) => no)
    await pool.query('delete from queue where no = any($1::bigint[])', [numbers])
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
            `update queue set delivered = delivered + 1, free_at = now() + $2::int * interval '1 ms' where no in (
               select no from queue where free_at <= now() order by place limit $1 for update skip locked)
             returning no, body, delivered`,
            [Math.min(max, 64), HOLDS_FOR_MS],
          )
          const deliveries = rows.map((row) => new TableDelivery(row))
          if (flaws.ackFirst) await done(deliveries)
          if (rows.length > 0 || signal.aborted || performance.now() > until) return deliveries
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
      },
      ack: done,
      async giveBack(deliveries, { delayMs }) {
        const numbers = (deliveries as readonly TableDelivery[]).map(({ no }) => no)
        await pool.query(`update queue set free_at = now() + $2::int * interval '1 ms' where no = any($1::bigint[])`, [
          numbers,
          delayMs,
        ])
      },
      async extend(deliveries) {
        const numbers = (deliveries as readonly TableDelivery[]).map(({ no }) => no)
        await pool.query(`update queue set free_at = now() + $2::int * interval '1 ms' where no = any($1::bigint[])`, [
          numbers,
          HOLDS_FOR_MS,
        ])
      },
      close: async () => {},
    }),
  }
}
