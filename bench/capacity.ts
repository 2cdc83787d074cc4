/**
 * How an operation's cost, the tables and the memory of the process grow with the number of operations, all in one
 * process and one database. docs/capacity.md is calculated from it.
 *
 * npm run bench:capacity -- [--operations N] [--rounds N] [--postgres 15|18] [--json] [--write] [--check]
 */
import { parseArgs } from 'node:util'
import { judge } from './bars.ts'
import { measureCapacity } from './capacity/measure.ts'
import { asText } from './capacity/report.ts'
import { storeResults } from './results/store.ts'
import { note, runProgram } from './support/program.ts'
import { POSTGRES_VERSIONS, startPostgres } from './support/server.ts'

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const
const { values } = parseArgs({
  options: {
    operations: { ...TEXT, default: '10000000' },
    rounds: { ...TEXT, default: '11' },
    postgres: { ...TEXT, default: '18' },
    json: FLAG,
    write: FLAG,
    check: FLAG,
  },
})

async function main(): Promise<number> {
  const operations = Number(values.operations.replaceAll('_', ''))
  const rounds = Number(values.rounds)
  const wanted = POSTGRES_VERSIONS.find((version) => version === values.postgres)
  if (!Number.isInteger(operations) || operations < 20_000) throw new Error('--operations is a whole number from 20000')
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds is a whole number above 0')
  if (wanted === undefined) throw new Error(`--postgres is one of ${POSTGRES_VERSIONS.join(', ')}`)
  const server = await startPostgres(wanted)
  try {
    const report = await measureCapacity(server, { operations, rounds, progress: note })
    if (values.write) storeResults((results) => ({ ...results, capacity: report }))
    console.log(values.json ? JSON.stringify(report, null, 2) : asText(report))
    const missed = judge({ cpu: {}, ratios: report.ratios, rates: {} }).filter(({ holds }) => !holds)
    for (const { ratio, value, bar } of missed) note(`missed: ${ratio} is ${value.toFixed(2)}, must be ${bar}`)
    return values.check && missed.length > 0 ? 1 : 0
  } finally {
    await server.stop()
  }
}

await runProgram(main)
