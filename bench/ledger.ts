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
import { measureCpu, measureEntries } from './ledger/measure.ts'
import { POSTGRES_VERSIONS, startPostgres, type BenchServer } from './support/server.ts'

const FILE = join('bench', 'ledger.json')
const ROUNDS = 11
const TRIES = 3
const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { write: FLAG, json: FLAG, rounds: TEXT, postgres: TEXT } })
  const rounds = Number(values.rounds ?? ROUNDS)
  const version = POSTGRES_VERSIONS.find((one) => one === (values.postgres ?? '18'))
  if (version === undefined) throw new Error(`--postgres is one of ${POSTGRES_VERSIONS.join(', ')}`)
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds is a whole number above 0')
  const ledger = JSON.parse(await readFile(FILE, 'utf8').catch(() => '{}')) as Ledger
  const server = await startPostgres(version)
  try {
    const kept = ledger[version]
    const measured = await measureEntries(server, { rounds })
    if (values.write) {
      await writeFile(FILE, `${JSON.stringify({ ...ledger, [version]: measured }, null, 2)}\n`)
      console.log(table(measured))
      return 0
    }
    if (!kept) throw new Error(`the ledger knows no PostgreSQL ${version}: npm run ledger -- --write`)
    const now = await withoutAccidents(server, rounds, kept, measured)
    console.log(values.json ? JSON.stringify(now) : table(now))
    const found = growths(kept, now)
    for (const growth of found) console.error(`GREW: ${asText(growth)}`)
    return found.length > 0 ? 1 : 0
  } finally {
    await server.stop()
  }
}

/** A machine with other work may take its time from one side. Growth of CPU counts when it shows each time. */
async function withoutAccidents(server: BenchServer, rounds: number, kept: Entries, first: Entries): Promise<Entries> {
  let now = first
  for (let tried = 1; tried < TRIES; tried++) {
    if (!growths(kept, now).some(({ what }) => what === 'cpuToBare')) break
    const again = await measureCpu(server, { rounds })
    now = Object.fromEntries(
      Object.entries(now).map(([name, entry]) => {
        const cpuToBare = Math.min(entry.cpuToBare, again.get(name) ?? Number.NaN)
        return [name, { ...entry, cpuToBare }]
      }),
    )
  }
  return now
}

function table(entries: Entries): string {
  const titles = ['statements', 'trips', 'rows', 'walBytes', 'cpuToBare'] as const
  const line = (name: string, cells: readonly (string | number)[]): string =>
    `${name.padEnd(18)}${cells.map((cell) => String(cell).padStart(12)).join('')}`
  return [
    line('per operation', titles),
    ...Object.entries(entries).map(([name, entry]) => {
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
