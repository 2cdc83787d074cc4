import { statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client, OpenFile } from '../../src/store/sqlite/client.ts'
import { findLibrary } from '../../src/store/sqlite/library.ts'
import { openSqlite } from '../scenarios/sqlite.ts'
import { newKeysInOrder } from '../support/charge.ts'
import { meterCpu } from '../support/cpu.ts'
import type { Scenario } from '../support/measure.ts'
import type { Entries, Entry } from './entry.ts'
import { inTurn, inWaves, type LedgerOptions, type Measured } from './measure.ts'

/** `slice` as for PostgreSQL. Each commit waits for the disk, so the slices are smaller. */
export const SQLITE_OPERATIONS: Readonly<Record<string, Measured>> = {
  sqliteAtomic: { atOnce: 1, slice: 256 },
  sqliteBatched: { atOnce: 32, slice: 512 },
}
const BASE = 'sqliteBare'
const COUNTED = 512

/** The embedded store has no trips. Its WAL is in whole pages, and grows without an end while it is counted. */
export async function measureSqliteEntries(options: LedgerOptions): Promise<Entries> {
  const counts = await countAll()
  const ratios = await measureSqliteCpu(options)
  return Object.fromEntries(
    [...counts].map(([name, count]) => [name, { ...count, trips: 0, cpuToBare: ratios.get(name) ?? Number.NaN }]),
  )
}

export function measureSqliteCpu({ rounds }: LedgerOptions): Promise<ReadonlyMap<string, number>> {
  return inDirectory(async (directory) => {
    newKeysInOrder('measured')
    const { scenarios, close } = await openSqlite(directory)
    try {
      const named = new Map(scenarios.map((scenario) => [scenario.name, scenario]))
      const meter = await meterCpu(process.pid, null)
      return await inTurn(named, { meter, rounds, operations: SQLITE_OPERATIONS, baseOf: () => BASE })
    } finally {
      await close()
    }
  })
}

function countAll(): Promise<Map<string, Omit<Entry, 'trips' | 'cpuToBare'>>> {
  return inDirectory(async (directory) => {
    newKeysInOrder('counted')
    const counter = await countingLibrary()
    const { scenarios, close } = await openSqlite(directory, () => Promise.resolve(counter.open))
    const walBytes = (): number => statSync(join(directory, 'ours.db-wal')).size
    try {
      const counts = new Map<string, Omit<Entry, 'trips' | 'cpuToBare'>>()
      for (const [name, { atOnce }] of Object.entries(SQLITE_OPERATIONS)) {
        const scenario = scenarios.find((one) => one.name === name) as Scenario
        await inWaves(scenario, atOnce, COUNTED)
        const before = { statements: counter.statements(), rows: counter.changes(), wal: walBytes() }
        await inWaves(scenario, atOnce, COUNTED)
        counts.set(name, {
          statements: each(counter.statements() - before.statements),
          rows: each(counter.changes() - before.rows),
          walBytes: Math.round((walBytes() - before.wal) / COUNTED),
        })
      }
      return counts
    } finally {
      await close()
    }
  })
}

interface Counter {
  readonly open: OpenFile
  statements(): number
  /** Rows written so far, by every connection. */
  changes(): number
}

async function countingLibrary(): Promise<Counter> {
  const open = await findLibrary()
  const clients: Client[] = []
  let statements = 0
  return {
    open(file) {
      const client = open(file)
      client.all('pragma wal_autocheckpoint = 0')
      clients.push(client)
      return {
        library: client.library,
        returnsRows: (sql) => client.returnsRows(sql),
        inTransaction: () => client.inTransaction(),
        close: () => client.close(),
        all(sql, values) {
          statements += 1
          return client.all(sql, values)
        },
        run(sql, values) {
          statements += 1
          return client.run(sql, values)
        },
      }
    },
    statements: () => statements,
    changes: () =>
      clients.reduce((sum, client) => sum + Number(client.all('select total_changes() as n')[0]?.['n']), 0),
  }
}

async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'effectively-once-ledger-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function each(count: number): number {
  return Math.round((count / COUNTED) * 100) / 100
}
