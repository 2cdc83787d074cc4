import { cpus, loadavg } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type pg from 'pg'
import { atomic } from '../scenarios/atomic.ts'
import { batchedCharge } from '../scenarios/batched.ts'
import { newCharge, newKey } from '../support/charge.ts'
import { meterCpu, perOperation, sumOf, type Cpu, type CpuMeter } from '../support/cpu.ts'
import { createDatabase, onServer, openOnce, openPool, type BenchOnce, type OnceOptions } from '../support/database.ts'
import { foundAgainst, measureRounds, median, repeat, shortNumber } from '../support/measure.ts'
import type { BenchServer } from '../support/server.ts'
import type { CapacityReport, Sample, TableSize } from './report.ts'

const FEW = 10_000
const SAMPLES = 20
const CALLERS = 128
const SWEPT = 10_000
const SWEEPS_MAX = 1_000

interface Options {
  readonly operations: number
  readonly rounds: number
  progress(text: string): void
}

interface Lab {
  readonly url: string
  readonly pool: pg.Pool
  readonly once: BenchOnce
  close(): Promise<void>
}

/** Many operations in one process against one database, and what they leave. */
export async function measureCapacity(server: BenchServer, options: Options): Promise<CapacityReport> {
  const { operations, progress } = options
  const load = Math.round((loadavg()[0] ?? Number.NaN) * 10) / 10
  const meter = await meterCpu(process.pid, server.url)
  const few = await openLab(server, 'capacity_few')
  const many = await openLab(server, 'capacity_many')
  try {
    await operate(few.once, FEW)
    const [cpuBefore, walBefore] = [meter.read(), await walOf(many.pool)]
    const samples = await sampled(many.once, meter, options)
    const cpu = perOperation(cpuBefore, meter.read(), operations)
    const walBytes = ((await walOf(many.pool)) - walBefore) / operations
    const vacuumCpu = await vacuum(many, meter, operations)
    progress('vacuumed')
    const tables = await tableSizes(many.pool)
    const ratios = { ...(await compare(few, many, meter, options)), 'memoryEnd/memoryStart': growth(samples) }
    const sweep = await sweepAll(server, meter)
    const { version: postgres } = server
    const measured = {
      operations,
      callers: CALLERS,
      postgres,
      node: process.versions.node,
      cores: cpus().length,
      load,
    }
    return { measured, samples, cpu, walBytes, tables, vacuumCpu, sweep, ratios }
  } finally {
    await few.close()
    await many.close()
  }
}

async function openLab(server: BenchServer, name: string, kept: OnceOptions = {}): Promise<Lab> {
  const url = await createDatabase(server.url, name)
  const pool = openPool(url)
  const once = await openOnce(pool, kept)
  return {
    url,
    pool,
    once,
    async close() {
      await once.close()
      await pool.end()
      await onServer(server.url, `drop database ${name} with (force)`)
    },
  }
}

async function operate(once: BenchOnce, times: number): Promise<void> {
  const charge = batchedCharge(once)
  await repeat({ name: 'charge', callers: CALLERS, operate: () => charge(newKey(), newCharge()) }, times)
}

async function sampled(once: BenchOnce, meter: CpuMeter, { operations, progress }: Options): Promise<Sample[]> {
  const samples: Sample[] = []
  const startedAt = performance.now()
  const step = Math.ceil(operations / SAMPLES)
  for (let done = 0; done < operations;) {
    const [before, from] = [meter.read(), performance.now()]
    const next = Math.min(step, operations - done)
    await operate(once, next)
    const rate = (next * 1000) / (performance.now() - from)
    const cpu = perOperation(before, meter.read(), next)
    done += next
    collectGarbage()
    const { heapUsed, rss } = process.memoryUsage()
    const seconds = (performance.now() - startedAt) / 1000
    samples.push({ operations: done, seconds, rate, cpu, heapMb: megabytes(heapUsed), rssMb: megabytes(rss) })
    progress(`${done} of ${operations} operations, ${Math.round(rate)} per second`)
  }
  return samples
}

/** The last fifth to the first: the start of a process is in neither. */
function growth(samples: readonly Sample[]): number {
  const heaps = samples.map(({ heapMb }) => heapMb)
  const fifth = Math.max(1, Math.floor(heaps.length / 5))
  return median(heaps.slice(-fifth)) / median(heaps.slice(0, fifth))
}

/** The same atomic operation in turn in both databases: what else the machine does meets both alike. */
async function compare(few: Lab, many: Lab, cpu: CpuMeter, { operations, rounds, progress }: Options) {
  const [fewName, manyName] = [`operation${shortNumber(FEW)}`, `operation${shortNumber(operations)}`]
  const scenarios = [
    { ...atomic(few.once), name: fewName },
    { ...atomic(many.once), name: manyName },
  ]
  const measured = await measureRounds(scenarios, { rounds, seconds: 1, cpu, progress })
  return foundAgainst(measured, () => fewName).cpuRatios ?? {}
}

async function vacuum({ url }: Lab, meter: CpuMeter, records: number): Promise<number> {
  const before = meter.read()
  await onServer(url, 'vacuum (analyze)')
  return sumOf(perOperation(before, meter.read(), records))
}

/** Records that are forgotten at once, and what it takes to remove them. */
async function sweepAll(server: BenchServer, meter: CpuMeter): Promise<CapacityReport['sweep']> {
  const lab = await openLab(server, 'capacity_swept', { replayFor: '1s', goneFor: '1s' })
  try {
    await operate(lab.once, SWEPT)
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    const [before, walBefore] = [meter.read(), await walOf(lab.pool)]
    let records = 0
    for (let sweeps = 0; sweeps < SWEEPS_MAX && records < SWEPT; sweeps++) records += (await lab.once.sweep()).records
    const cpu: Cpu = perOperation(before, meter.read(), records)
    return { cpu, walBytes: ((await walOf(lab.pool)) - walBefore) / records, records }
  } finally {
    await lab.close()
  }
}

async function walOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ wal: number }>(
    `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal`,
  )
  return rows[0]?.wal ?? Number.NaN
}

/** A partition counts for its table. Only tables of ours that hold something. */
async function tableSizes(pool: pg.Pool): Promise<Record<string, TableSize>> {
  const { rows } = await pool.query<TableSize & { name: string }>(`
    select coalesce(p.relname, c.relname) as name, sum(greatest(c.reltuples, 0))::float8 as rows,
           sum(pg_table_size(c.oid))::float8 as "tableBytes", sum(pg_indexes_size(c.oid))::float8 as "indexBytes"
      from pg_class c
      left join pg_inherits i on i.inhrelid = c.oid
      left join pg_class p on p.oid = i.inhparent
     where c.relnamespace = 'effectively_once'::regnamespace and c.relkind = 'r'
     group by 1 having sum(c.reltuples) >= 1000 order by 1`)
  return Object.fromEntries(rows.map(({ name, ...size }) => [name, size]))
}

let collect: (() => void) | undefined

function collectGarbage(): void {
  if (!collect) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
  }
  collect()
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 104_857.6) / 10
}
