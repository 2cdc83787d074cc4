import { parseArgs } from 'node:util'
import type pg from 'pg'
import { inProcessSink } from '../src/index.ts'
import { createDatabase, onServer, openOnce, openPool } from './support/database.ts'
import { fill } from './support/fill.ts'
import { note, reportOn, runProgram } from './support/program.ts'
import { computedMs, spreadOf, type ServerTime } from './support/server-time.ts'

/** Database time of one `once.status()`, in milliseconds. */
const STATUS_MS_MAX = 50
const CALLS = 20
const CONSUMERS = 10
const LETTERS_STEP = 100_000
const DATABASE = 'bench_status'
const HANDLERS = { 'charge.created': async () => {} }

const USAGE = `npm run bench:status -- [options]
  --records <n>      stored records (default 1000000)
  --letters <n>      parked dead letters of ${CONSUMERS} consumers (default 100000)
  --json             machine-readable results on standard output
  --check            exit 1 when a call takes ${STATUS_MS_MAX} ms of database time or more`

interface Report extends ServerTime {
  readonly records: number
  readonly letters: number
  readonly postgres: string
  readonly calls: number
  readonly holds: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      records: { type: 'string', default: '1000000' },
      letters: { type: 'string', default: '100000' },
      json: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const [records, letters] = [values.records, values.letters].map((text) => Number(text.replaceAll('_', '')))
  if (values.help || !isCount(records) || !isCount(letters)) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  return reportOn(values, (url) => measure(url, records, letters), asText)
}

function isCount(n: number | undefined): n is number {
  return Number.isInteger(n) && (n as number) >= 1
}

async function measure(serverUrl: string, records: number, letters: number): Promise<Report> {
  const { rows } = await onServer(serverUrl, `select current_setting('server_version') as version`)
  const url = await createDatabase(serverUrl, DATABASE)
  // One connection: what its server process computes is the status'.
  const pool = openPool(url, { max: 1 })
  try {
    const once = await openOnce(pool)
    await fill(url, records, note)
    await once.relay({ to: inProcessSink(() => {}) }).drain()
    const names = Array.from({ length: CONSUMERS }, (_, n) => `consumer-${n}`)
    for (const name of names) await once.consumer(name, { from: once.outbox }, HANDLERS).drain()
    await park(pool, letters)
    const times = await timesOf(pool, async () => {
      const { deadLetters } = await once.status()
      if (deadLetters.parked === 0) throw new Error('the status knows of no dead letter')
    })
    await once.close()
    const postgres = String(rows[0]?.version).split(' ')[0] as string
    return {
      records,
      letters,
      postgres,
      calls: CALLS,
      ...times,
      holds: (times.cpuMs ?? times.wallMs).max < STATUS_MS_MAX,
    }
  } finally {
    await pool.end()
    await onServer(serverUrl, `drop database ${DATABASE} with (force)`)
  }
}

/** Under the names that the consumers have in the database. */
async function park(pool: pg.Pool, letters: number): Promise<void> {
  for (let from = 1; from <= letters; from += LETTERS_STEP) {
    const to = Math.min(from + LETTERS_STEP - 1, letters)
    await pool.query(PARK, [from, to])
    note(`${to} of ${letters} dead letters`)
  }
  await pool.query('vacuum (freeze, analyze) effectively_once.dead_letter')
  await pool.query('checkpoint')
}

const PARK = `
insert into effectively_once.dead_letter (id, attempts, state, consumer, source, message, type, aggregate, reason, error,
  fingerprint, timeline, causes, headers, body)
select md5('letter' || n)::uuid, 1, 1, c.names[1 + n % cardinality(c.names)], 'outbox', n::text, 'charge.created',
       'a' || n % 1000, 'failed', 'the receipt printer is on fire', 'f', '[]', '[]', '{}', '{}'
  from generate_series($1::int8, $2::int8) n, (select array_agg(name) as names from effectively_once.consumer) c`

async function timesOf(pool: pg.Pool, call: () => Promise<void>): Promise<ServerTime> {
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  const wall: number[] = []
  const cpu: number[] = []
  for (let n = 0; n < CALLS; n++) {
    const before = await computedMs(rows[0]?.pid)
    const startedAt = performance.now()
    await call()
    wall.push(performance.now() - startedAt)
    cpu.push((await computedMs(rows[0]?.pid)) - before)
  }
  return { wallMs: spreadOf(wall), cpuMs: Number.isNaN(cpu[0]) ? null : spreadOf(cpu) }
}

function asText({ records, letters, postgres, calls, wallMs, cpuMs, holds }: Report): string {
  return [
    `once.status() with ${records} records and ${letters} parked dead letters, PostgreSQL ${postgres}`,
    `  ${calls} calls of ${wallMs.median} ms, at most ${wallMs.max} ms` +
      (cpuMs ? `; of a processor ${cpuMs.median} ms, at most ${cpuMs.max} ms` : ''),
    holds ? 'the bar holds' : `the bar does not hold: under ${STATUS_MS_MAX} ms`,
  ].join('\n')
}

await runProgram(main)
