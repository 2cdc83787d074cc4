import { join } from 'node:path'
import { CASES, type CaseName } from '../http/cases.ts'
import { countCost, withQuietWal } from '../support/costs.ts'
import { meterCpu, sumOf } from '../support/cpu.ts'
import { CALLERS, createDatabase, onServer } from '../support/database.ts'
import { startHttp, type HttpBench } from '../support/http.ts'
import { measureHttpRounds } from '../support/http-rounds.ts'
import { ratio } from '../support/measure.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { Entries, Entry } from './entry.ts'
import type { LedgerOptions, LedgerServer } from './measure.ts'

const FRAMEWORK = 'fastify'
/** Not the batched ones and replays: how many requests share a batch or a trip depends on when they arrive. */
export const HTTP_OPERATIONS = ['atomic', 'atomicEvent'] as const satisfies readonly CaseName[]
const COUNTED = 1000

const named = (name: CaseName): string => `${FRAMEWORK}.${name}`

export async function measureHttpEntries(server: LedgerServer, options: LedgerOptions): Promise<Entries> {
  const counts = await withQuietWal(server, () => inDatabase(server, countAll))
  const ratios = await measureHttpCpu(server, options)
  return Object.fromEntries(
    [...counts].map(([name, count]) => [name, { ...count, cpuToBare: ratios.get(name) ?? Number.NaN }]),
  )
}

/** Process plus server, to the bare handler with the same event. */
export function measureHttpCpu(server: LedgerServer, { rounds }: LedgerOptions): Promise<ReadonlyMap<string, number>> {
  return inDatabase(server, (url) =>
    withServer(url, async (http) => {
      const meter = await meterCpu(http.pid, server.url)
      const names = new Set<CaseName>(HTTP_OPERATIONS.flatMap((name) => [CASES[name].base, name]))
      const subjects = [...names].map((name) => ({
        name: named(name),
        http,
        meter,
        path: `/${name}`,
        keys: CASES[name].keys,
      }))
      const { cpu } = await measureHttpRounds(subjects, { rounds, seconds: 1, progress: () => {} })
      const sums = new Map([...cpu].map(([name, all]) => [name, all.map(sumOf)]))
      return new Map(
        HTTP_OPERATIONS.map((name) => {
          const toBare = ratio(sums, named(name), named(CASES[name].base)) ?? Number.NaN
          return [named(name), Number(toBare.toPrecision(3))]
        }),
      )
    }),
  )
}

async function countAll(url: string): Promise<Map<string, Omit<Entry, 'cpuToBare'>>> {
  const meter = await startWireMeter(url)
  try {
    return await withServer(meter.url, async (http) => {
      const counts = new Map<string, Omit<Entry, 'cpuToBare'>>()
      for (const name of HTTP_OPERATIONS) {
        const { statements, trips, rowsWritten, walBytes } = await countCost({
          url,
          meter,
          warmUp: COUNTED,
          operations: COUNTED,
          repeat: (amount) => http.load({ path: `/${name}`, keys: CASES[name].keys, clients: CALLERS, amount }),
          flush: () => http.flush(),
        })
        counts.set(named(name), { statements, trips, rows: rowsWritten, walBytes })
      }
      return counts
    })
  } finally {
    await meter.close()
  }
}

async function withServer<T>(url: string, work: (http: HttpBench) => Promise<T>): Promise<T> {
  const http = await startHttp(join('http', 'server'), [FRAMEWORK, url])
  try {
    return await work(http)
  } finally {
    await http.close()
  }
}

async function inDatabase<T>(server: LedgerServer, work: (url: string) => Promise<T>): Promise<T> {
  const url = await createDatabase(server.url, 'ledger_http')
  try {
    return await work(url)
  } finally {
    await onServer(server.url, 'drop database ledger_http with (force)')
  }
}
