import { spawn } from 'node:child_process'
import pg from 'pg'
import { programBeside } from '../../scripts/program.ts'
import { pgStore } from '../../src/entry/pg.ts'
import type { ReconciliationResult } from '../../src/entry/reconciliation.ts'
import { CompensatingProvider, nameOf } from './provider.ts'

export interface ReconciliationChaos {
  readonly ours: number
  readonly theirs: number
  /** Faults of each kind. */
  readonly planted: number
  readonly kills: number
  readonly lostAnswers: number
  /** What the last process reported. */
  readonly found: Readonly<Record<'missing' | 'double' | 'orphaned', number>>
  readonly compensated: number
  /** Planted faults without a compensation. */
  readonly missed: number
  /** Compensations of calls that were in order. */
  readonly wrong: number
  /** Faults with more than one compensation. */
  readonly twice: number
  readonly rssMb: number
  readonly seconds: number
}

export interface ReconciliationChaosOptions {
  readonly database: string
  readonly entries: number
  readonly faults: number
  readonly kills: number
  readonly seed: number
}

const LOST_SHARE = 0.01
const KILL_MS_MAX = 40
const TIMEOUT_MS = 3_600_000

/** Plants faults, and kills the comparing process at random moments of its compensations. */
export async function reconciliationChaos(options: ReconciliationChaosOptions): Promise<ReconciliationChaos> {
  const { database, entries, faults, kills, seed } = options
  const startedAt = performance.now()
  const next = numbers(seed)
  const pool = new pg.Pool({ connectionString: database, max: 2 })
  const store = pgStore(pool)
  await store.schema.migrate()
  const planted = await plant(pool, entries, faults, next)
  let lostAnswers = 0
  const provider = new CompensatingProvider(() => {
    const isLost = next() < LOST_SHARE
    if (isLost) lostAnswers++
    return isLost
  })
  const url = await provider.start()
  let killed = 0
  let result: (ReconciliationResult & { readonly rssMax: number }) | null = null
  try {
    while (result === null && performance.now() - startedAt < TIMEOUT_MS) {
      const share = (3 * faults) / (kills + 1)
      const dieAt = killed < kills ? provider.calls + 1 + Math.floor(share * (0.3 + next())) : null
      result = await work(database, url, provider, dieAt === null ? null : { at: dieAt, afterMs: next() * KILL_MS_MAX })
      if (result === null) killed++
    }
  } finally {
    await provider.stop()
    await pool.end()
  }
  if (result === null) throw new Error('the reconciliation did not end in time')
  const made = [...provider.effects]
  return {
    ours: result.ours,
    theirs: result.theirs,
    planted: faults,
    kills: killed,
    lostAnswers,
    found: { missing: result.missing, double: result.double, orphaned: result.orphaned },
    compensated: result.compensated,
    missed: [...planted].filter((name) => !provider.effects.has(name)).length,
    wrong: made.filter(([name]) => !planted.has(name)).length,
    twice: made.filter(([, times]) => times > 1).length,
    rssMb: Math.round(result.rssMax / 2 ** 20),
    seconds: Math.round((performance.now() - startedAt) / 1_000),
  }
}

/** Runs one process. Null: it was killed. */
function work(
  database: string,
  url: string,
  provider: CompensatingProvider,
  die: { readonly at: number; readonly afterMs: number } | null,
): Promise<(ReconciliationResult & { readonly rssMax: number }) | null> {
  const { file, execArgv } = programBeside(import.meta.url, 'worker')
  const child = spawn(process.execPath, [...execArgv, file, database, url], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  let isKilled = false
  child.stdout.on('data', (data) => (out += String(data)))
  provider.onCall = () => {
    if (die === null || isKilled || provider.calls < die.at) return
    isKilled = true
    // Also between two calls: while a result or a page is being recorded.
    setTimeout(() => child.kill('SIGKILL'), die.afterMs)
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (isKilled && signal === 'SIGKILL') resolve(null)
      else if (code === 0) resolve(JSON.parse(out) as ReconciliationResult & { rssMax: number })
      else reject(new Error(`the worker ended with ${code}`))
    })
  })
}

/** Both sides as tables. Returns the names of the compensations that are due. */
async function plant(pool: pg.Pool, entries: number, faults: number, next: () => number): Promise<Set<string>> {
  const table = 'key text collate "C" not null, id integer not null, primary key (key, id)'
  await pool.query(`create table ours (${table}); create table theirs (${table})`)
  const keyOf = (n: number): string => `charge-${String(n).padStart(9, '0')}`
  // Orphaned calls get numbers of their own.
  const numbersOf = Array.from({ length: entries + faults }, (_, n) => n)
  for (let i = numbersOf.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1))
    ;[numbersOf[i], numbersOf[j]] = [numbersOf[j] as number, numbersOf[i] as number]
  }
  const orphaned = new Set(numbersOf.slice(0, faults))
  const missing = new Set(numbersOf.slice(faults, 2 * faults))
  const double = new Set(numbersOf.slice(2 * faults, 3 * faults))
  const sides: Record<'ours' | 'theirs', [string, number][]> = { ours: [], theirs: [] }
  const due = new Set<string>()
  for (let n = 0; n < entries + faults; n++) {
    const key = keyOf(n)
    if (!orphaned.has(n)) sides.ours.push([key, 0])
    if (!missing.has(n)) sides.theirs.push([key, 0])
    if (double.has(n)) sides.theirs.push([key, 1])
    if (orphaned.has(n)) due.add(nameOf({ kind: 'orphaned', key, id: 0 }))
    if (missing.has(n)) due.add(nameOf({ kind: 'missing', key, id: 0 }))
    if (double.has(n)) due.add(nameOf({ kind: 'double', key, id: 1 }))
  }
  for (const [name, rows] of Object.entries(sides)) {
    const columns = [rows.map(([key]) => key), rows.map(([, id]) => id)]
    await pool.query(`insert into ${name} (key, id) select * from unnest($1::text[], $2::integer[])`, columns)
  }
  await pool.query('analyze ours; analyze theirs')
  return due
}

/** Numbers from 0 to 1 that depend only on the seed. */
function numbers(seed: number): () => number {
  let state = (seed + 0x9e_37_79_b9) >>> 0
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
