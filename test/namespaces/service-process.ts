/**
 * One process of a service: publishes what is missing of its share, relays and consumes, until it is killed.
 * service-process <database> <namespace> <events> <share> <shares>
 */
import '../broker/support/with-parent.ts'
import pg from 'pg'
import { effectivelyOnce, event, isOnceError, type Sink } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'

const [database = '', namespace = '', events = '0', share = '0', shares = '1'] = process.argv.slice(2)
const CATALOGUE = { 'note.made': event<{ to: string; n: number }>(({ to }) => to) }
const AGGREGATES = 50
const SENT = `insert into sent (service, source, id, n)
  select * from jsonb_to_recordset($1::jsonb) as r(service text, source text, id text, n int4)`

const pool = new pg.Pool({ connectionString: database, max: 8 })
pool.on('error', () => {})
const once = effectivelyOnce({ namespace, store: pgStore(pool), events: CATALOGUE, guard: 'off', sweep: false })

/** Names that the other service uses, too. */
const hook: Sink = {
  name: 'hook',
  proves: 'flushed',
  dedupes: false,
  orders: true,
  async send(sent) {
    const rows = sent.map(({ id, source, data }) => ({ service: namespace, source, id, n: (data as { n: number }).n }))
    await pool.query(SENT, [JSON.stringify(rows)])
    return sent.map(() => ({ kind: 'sent' }))
  },
}
await once.relay({ to: hook, lease: '4s' }).start()
const emails = once.consumer(
  'emails',
  { from: once.outbox, concurrency: 2 },
  {
    'note.made': async ({ id, source, data }, { tx }) => {
      const values = [namespace, source, id, data.n]
      await tx.query('insert into applied (service, source, id, n) values ($1, $2, $3, $4)', values)
    },
  },
)
await emails.start()
process.stdout.write('ready\n')

const MISSING = `select g.n from generate_series($2::int4 + 1, $3::int4, $4::int4) g(n)
  where not exists (select 1 from made m where m.service = $1 and m.n = g.n) order by g.n limit 500`

for (;;) {
  const { rows } = await pool.query<{ n: number }>(MISSING, [namespace, share, events, shares])
  if (rows.length === 0) break
  for (const { n } of rows) await make(n).catch(tellUnlessRunning)
}

async function make(n: number): Promise<void> {
  await once.run({ scope: 'chaos', key: `note-${n}`, input: { n } }, async ({ tx, publish }) => {
    await tx.query('insert into made (service, n) values ($1, $2)', [namespace, n])
    await publish('note.made', { to: `a${n % AGGREGATES}`, n })
  })
}

/** The one that was killed may still hold the key: it is missing, and comes again. */
function tellUnlessRunning(error: unknown): void {
  if (!isOnceError(error, 'ONCE_IN_FLIGHT')) console.error(namespace, error)
}
