import { readdirSync, readFileSync } from 'node:fs'
import { onServer } from './database.ts'

/** The kernel counts in hundredths of a second on every Linux that runs Node. */
const TICK_US = 10_000

/** CPU microseconds so far: of the process that runs the code, and of the servers that it needs. */
export interface Cpu {
  readonly process: number
  readonly server: number
}

export interface CpuMeter {
  read(): Cpu
}

export const NO_CPU: Cpu = { process: 0, server: 0 }

export function sumOf({ process: own, server }: Cpu): number {
  return own + server
}

/** Between two readings, per operation. */
export function perOperation(before: Cpu, after: Cpu, operations: number): Cpu {
  return {
    process: (after.process - before.process) / operations,
    server: (after.server - before.server) / operations,
  }
}

/**
 * `pid`: whose process is measured. `serverUrl`: PostgreSQL with all its backends, on this machine. `others`: the processes
 * of other servers that do a part of the work, such as Redis.
 */
export async function meterCpu(
  pid: number,
  serverUrl: string | null,
  others: readonly number[] = [],
): Promise<CpuMeter> {
  const postmaster = serverUrl === null ? null : await postmasterOf(serverUrl)
  const own = (of: number): number => timeOf(of)?.own ?? 0
  return {
    read: () => ({
      process: own(pid),
      server: others.reduce((sum, other) => sum + own(other), postmaster === null ? 0 : treeOf(postmaster)),
    }),
  }
}

async function postmasterOf(url: string): Promise<number> {
  const { rows } = await onServer(url, "select pid from pg_stat_activity where backend_type = 'checkpointer'")
  const parent = timeOf(Number((rows[0] as { pid: number } | undefined)?.pid))?.parent
  if (parent === undefined) throw new Error('the benchmark measures a PostgreSQL of this machine only')
  return parent
}

/** What its ended backends used is in the postmaster's account of its children. */
function treeOf(postmaster: number): number {
  let sum = 0
  for (const name of readdirSync('/proc')) {
    const time = /^\d+$/.test(name) ? timeOf(Number(name)) : undefined
    if (time && Number(name) === postmaster) sum += time.own + time.children
    else if (time?.parent === postmaster) sum += time.own
  }
  return sum
}

function timeOf(pid: number): { own: number; children: number; parent: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in brackets may hold spaces. After it: state, parent, ..., user, system, children's user and system.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const at = (n: number): number => Number(fields[n]) * TICK_US
    return { parent: Number(fields[1]), own: scheduled(pid) ?? at(11) + at(12), children: at(13) + at(14) }
  } catch {
    // It ended.
    return undefined
  }
}

/** In nanoseconds, for each thread: finer than ticks. */
function scheduled(pid: number): number | undefined {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const times = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
    return times.reduce((sum, time) => sum + Number(time) / 1000, 0)
  } catch {
    return undefined
  }
}
