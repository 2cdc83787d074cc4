import { parseArgs } from 'node:util'
import { createDatabase, onServer, openOnce, openPool } from './support/database.ts'
import type { BenchOnce } from './support/database.ts'
import { fill } from './support/fill.ts'
import { note, reportOn, runProgram } from './support/program.ts'
import { computedMs, isUnder, spreadOf, type ServerTime } from './support/server-time.ts'

/** Database time of one sweep when nothing is due, in milliseconds. */
const SWEEP_MS_MAX = 50
const KNOWN_SWEEPS = 20
const AT_ONCE = 4
const DATABASE = 'bench_sweep'

const USAGE = `npm run bench:sweep -- [options]
  --records <n>      live records (default 10000000)
  --json             machine-readable results on standard output
  --check            exit 1 when a sweep takes ${SWEEP_MS_MAX} ms of database time or more, or two sweep at once`

interface Report {
  readonly records: number
  readonly postgres: string
  /** Sweeps until everything was looked at once: nothing was known, nothing is due. */
  readonly first: Figures
  /** Sweeps after that. */
  readonly known: Figures
  readonly atOnce: { readonly sweepers: number; readonly swept: number; readonly skipped: number }
  readonly holds: boolean
}

interface Figures extends ServerTime {
  readonly sweeps: number
  readonly removed: number
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      records: { type: 'string', default: '10000000' },
      json: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const records = Number(values.records.replaceAll('_', ''))
  if (values.help || !Number.isInteger(records) || records < 1) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  return reportOn(values, (url) => measure(url, records), asText)
}

async function measure(serverUrl: string, records: number): Promise<Report> {
  const { rows } = await onServer(serverUrl, `select current_setting('server_version') as version`)
  const url = await createDatabase(serverUrl, DATABASE)
  try {
    await prepare(url, records)
    const sweeper = await openSweeper(url)
    const first = await sweeper.until((finished) => finished)
    const known = await sweeper.until((_, sweeps) => sweeps === KNOWN_SWEEPS)
    await sweeper.close()
    const atOnce = await sweepAtOnce(url)
    const holds = isUnder(SWEEP_MS_MAX, first) && isUnder(SWEEP_MS_MAX, known) && atOnce.swept === 1
    return { records, postgres: String(rows[0]?.version).split(' ')[0] as string, first, known, atOnce, holds }
  } finally {
    await onServer(serverUrl, `drop database ${DATABASE} with (force)`)
  }
}

async function prepare(url: string, records: number): Promise<void> {
  const pool = openPool(url)
  const once = await openOnce(pool)
  await fill(url, records, note)
  await once.close()
  await pool.end()
}

interface Sweeper {
  until(isDone: (finished: boolean, sweeps: number) => boolean): Promise<Figures>
  close(): Promise<void>
}

/** With one connection: what its server process computes is the sweep's. */
async function openSweeper(url: string): Promise<Sweeper> {
  const pool = openPool(url, { max: 1 })
  const once = await openOnce(pool)
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    async until(isDone) {
      const wall: number[] = []
      const cpu: number[] = []
      let removed = 0
      for (let done = false; !done;) {
        const before = await computedMs(rows[0]?.pid)
        const startedAt = performance.now()
        const swept = await once.sweep()
        wall.push(performance.now() - startedAt)
        cpu.push((await computedMs(rows[0]?.pid)) - before)
        removed += swept.records
        done = isDone(swept.finished, wall.length)
      }
      const cpuMs = Number.isNaN(cpu[0]) ? null : spreadOf(cpu)
      return { sweeps: wall.length, removed, wallMs: spreadOf(wall), cpuMs }
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}

/** As many processes would: each with connections of its own. */
async function sweepAtOnce(url: string): Promise<Report['atOnce']> {
  const pools = Array.from({ length: AT_ONCE }, () => openPool(url, { max: 2 }))
  const instances: BenchOnce[] = []
  for (const pool of pools) instances.push(await openOnce(pool))
  const all = await Promise.all(instances.map((once) => once.sweep()))
  for (const once of instances) await once.close()
  for (const pool of pools) await pool.end()
  const skipped = all.filter(({ skipped }) => skipped).length
  return { sweepers: AT_ONCE, swept: AT_ONCE - skipped, skipped }
}

function asText({ records, postgres, first, known, atOnce, holds }: Report): string {
  const line = (name: string, { sweeps, wallMs, cpuMs }: Figures): string =>
    `  ${name.padEnd(16)}${String(sweeps).padStart(6)} sweeps of ${wallMs.median} ms, at most ${wallMs.max} ms` +
    (cpuMs ? `; of a processor ${cpuMs.median} ms, at most ${cpuMs.max} ms` : '')
  return [
    `Sweeping ${records} live records of which none is due, PostgreSQL ${postgres}`,
    line('nothing known', first),
    line('known', known),
    `  ${atOnce.sweepers} at once: ${atOnce.swept} swept, ${atOnce.skipped} skipped`,
    holds ? 'the bar holds' : `the bar does not hold: under ${SWEEP_MS_MAX} ms, one sweeper at a time`,
  ].join('\n')
}

await runProgram(main)
