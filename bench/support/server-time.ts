import { readFile } from 'node:fs/promises'
import { median } from './measure.ts'

export interface Spread {
  readonly median: number
  readonly max: number
}

export function spreadOf(ms: readonly number[]): Spread {
  return { median: round(median(ms)), max: round(Math.max(...ms)) }
}

/** What one kind of call took. */
export interface ServerTime {
  /** From the first statement to the answer to the last, one after the other: never less than the database's time. */
  readonly wallMs: Spread
  /** Of the server's processor: what else the machine does is not in it. Null where it cannot be told. */
  readonly cpuMs: Spread | null
}

/** Beside other work the longest wait is the machine's, not the statements'. */
export function isUnder(ms: number, { wallMs, cpuMs }: ServerTime): boolean {
  return (cpuMs ?? wallMs).max < ms && wallMs.median < ms
}

/** Time on a processor so far, of a server on this machine, where it is Linux. */
export async function computedMs(pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '')
  return Number(text.split(' ')[0] || Number.NaN) / 1e6
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100
}
