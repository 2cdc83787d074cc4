import { createDatabase, onServer } from '../support/database.ts'
import pg from 'pg'
import { startDelayProxy } from '../support/delay-proxy.ts'
import { median } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'
import { measureAgainstBare } from './main.ts'

const DELAY_MS = 0.5
const PINGS = 51
const NAMES = [
  'bare4Prepared',
  'handSixPrepared',
  'handOnePrepared',
  'handPipelined',
  'atomic',
  'leased',
  'batched',
  'replayDatabase',
]

export interface FoundDelayed extends Found {
  readonly roundTripMs: { readonly direct: number; readonly delayed: number }
}

/** The same with half a millisecond of network in each direction: here trips decide, not statements. */
export async function measureDelayed(bench: Bench): Promise<FoundDelayed> {
  const url = await createDatabase(bench.serverUrl, 'bench_delayed')
  const proxy = await startDelayProxy(url, DELAY_MS)
  try {
    const roundTripMs = { direct: await ping(url), delayed: await ping(proxy.url) }
    return { ...(await measureAgainstBare(bench, proxy.url, NAMES)), roundTripMs }
  } finally {
    await proxy.close()
    await onServer(bench.serverUrl, 'drop database bench_delayed with (force)')
  }
}

async function ping(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const times: number[] = []
  for (let i = 0; i < PINGS; i++) {
    const startedAt = performance.now()
    await client.query('')
    times.push(performance.now() - startedAt)
  }
  await client.end()
  return median(times)
}
