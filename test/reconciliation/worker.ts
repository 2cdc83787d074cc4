/** A process of the chaos run: compares and compensates until it is done or killed. */
import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'
import { reconciliation, type Side } from '../../src/entry/reconciliation.ts'
import { effectivelyOnce } from '../../src/index.ts'

const [url = '', provider = ''] = process.argv.slice(2)
const READ = 1_000
const pool = new pg.Pool({ connectionString: url, max: 5 })
const once = effectivelyOnce({ namespace: 'chaos', store: pgStore(pool), guard: 'off', sweep: false })

interface Call {
  readonly key: string
  readonly id: number
}

/** Pages by key and id, so that no read is large. */
function sideOf(table: 'ours' | 'theirs'): Side<Call> {
  return async function* ({ after }) {
    let last: Call = { key: after ?? '', id: 2 ** 31 - 1 }
    for (;;) {
      const { rows } = await pool.query<Call>(
        `select key, id from ${table} where (key, id) > ($1, $2) order by key, id limit ${READ}`,
        [last.key, last.id],
      )
      yield* rows
      if (rows.length < READ) return
      last = rows.at(-1) as Call
    }
  }
}

async function compensate(kind: string, { key, id }: Call, idempotencyKey: string): Promise<unknown> {
  const body = JSON.stringify({ kind, key, id })
  const answer = await fetch(provider, { method: 'POST', body, headers: { 'idempotency-key': idempotencyKey } })
  return answer.json()
}

const charges = reconciliation<Call, Call>({
  once,
  name: 'charges',
  ours: sideOf('ours'),
  theirs: sideOf('theirs'),
  key: ({ key }) => key,
  lease: '3s',
  compensate: {
    missing: ({ ours }, { key }) => compensate('missing', ours, key),
    double: ({ theirs }, { key }) => compensate('double', theirs, key),
    orphaned: ({ theirs }, { key }) => compensate('orphaned', theirs, key),
  },
})

const TRIES_MAX = 500
let rssMax = 0
const watching = setInterval(() => (rssMax = Math.max(rssMax, process.memoryUsage.rss())), 100)
for (let tries = 1; ; tries++) {
  const result = await charges.run({ by: 'chaos', why: 'a test', canary: 0, rate: 10_000, pauseAt: 1 })
  if (result.state === 'done' || tries === TRIES_MAX) {
    clearInterval(watching)
    process.stdout.write(`${JSON.stringify({ ...result, rssMax })}\n`)
    break
  }
}
await charges.close()
await pool.end()
