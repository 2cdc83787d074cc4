/**
 * What each kind of operation costs, beside what the ledger in the repository says it may: statements, trips and rows may
 * not grow at all, WAL by 5 %, CPU to the bare version by 15 %.
 *
 * npm run ledger -- [--write] [--json] [--rounds N] [--postgres 15|18]
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { asText, growths, type Entries, type Ledger } from './ledger/entry.ts'
import { measureHttpCpu, measureHttpEntries } from './ledger/http.ts'
import { measureCpu, measureEntries } from './ledger/measure.ts'
import { measureSqliteCpu, measureSqliteEntries } from './ledger/sqlite.ts'
import { POSTGRES_VERSIONS, startPostgres, type BenchServer } from './support/server.ts'

const FILE = join('bench', 'ledger.json')
const ROUNDS = 11
const TRIES = 3
const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const

/** One page of the ledger. */
interface Page {
  readonly name: string
  measure(): Promise<Entries>
  /** The ratios of CPU alone, once more. */
  measureCpu(): Promise<ReadonlyMap<string, number>>
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { write: FLAG, json: FLAG, rounds: TEXT, postgres: TEXT } })
  const rounds = Number(values.rounds ?? ROUNDS)
  const version = POSTGRES_VERSIONS.find((one) => one === (values.postgres ?? '18'))
  if (version === undefined) throw new Error(`--postgres is one of ${POSTGRES_VERSIONS.join(', ')}`)
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds is a whole number above 0')
  const server = await startPostgres(version)
  try {
    const ledger = JSON.parse(await readFile(FILE, 'utf8').catch(() => '{}')) as Ledger
    const now: Record<string, Entries> = {}
    for (const page of [postgresPage(version, server, rounds), sqlitePage(rounds)]) {
      const measured = await page.measure()
      const kept = ledger[page.name]
      if (!kept && !values.write) throw new Error(`the ledger has no page ${page.name}: npm run ledger -- --write`)
      now[page.name] = kept && !values.write ? await withoutAccidents(page, kept, measured) : measured
    }
    if (values.write) await writeFile(FILE, `${JSON.stringify({ ...ledger, ...now }, null, 2)}\n`)
    console.log(values.json ? JSON.stringify(now) : table(now))
    if (values.write) return 0
    const found = Object.entries(now).flatMap(([name, entries]) => growths(ledger[name] ?? {}, entries))
    for (const growth of found) console.error(`GREW: ${asText(growth)}`)
    return found.length > 0 ? 1 : 0
  } finally {
    await server.stop()
  }
}

function postgresPage(name: string, server: BenchServer, rounds: number): Page {
  return {
    name,
    measure: async () => ({
      ...(await measureEntries(server, { rounds })),
      ...(await measureHttpEntries(server, { rounds })),
    }),
    measureCpu: async () =>
      new Map([...(await measureCpu(server, { rounds })), ...(await measureHttpCpu(server, { rounds }))]),
  }
}

function sqlitePage(rounds: number): Page {
  return {
    name: 'sqlite',
    measure: () => measureSqliteEntries({ rounds }),
    measureCpu: () => measureSqliteCpu({ rounds }),
  }
}

/** A machine with other work may take its time from one side. Growth of CPU counts when it shows each time. */
async function withoutAccidents(page: Page, kept: Entries, first: Entries): Promise<Entries> {
  let now = first
  for (let tried = 1; tried < TRIES; tried++) {
    if (!growths(kept, now).some(({ what }) => what === 'cpuToBare')) break
    const again = await page.measureCpu()
    now = Object.fromEntries(
      Object.entries(now).map(([name, entry]) => {
        const cpuToBare = Math.min(entry.cpuToBare, again.get(name) ?? Number.NaN)
        return [name, { ...entry, cpuToBare }]
      }),
    )
  }
  return now
}

function table(pages: Readonly<Record<string, Entries>>): string {
  const titles = ['statements', 'trips', 'rows', 'walBytes', 'cpuToBare'] as const
  const line = (name: string, cells: readonly (string | number)[]): string =>
    `${name.padEnd(24)}${cells.map((cell) => String(cell).padStart(12)).join('')}`
  return [
    line('per operation', titles),
    ...Object.values(pages)
      .flatMap((entries) => Object.entries(entries))
      .map(([name, entry]) => {
        const figures = titles.map((title) => entry[title])
        return line(name, figures)
      }),
  ].join('\n')
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
  process.exitCode = 3
}
