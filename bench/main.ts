import { cpus } from 'node:os'
import { isMissing, startServers } from '../scripts/servers/index.ts'
import { judge } from './bars.ts'
import { measureConsumer } from './groups/consumer.ts'
import { countCosts } from './groups/costs.ts'
import { measureDelayed } from './groups/delayed.ts'
import type { Bench } from './groups/group.ts'
import { measureHttp } from './groups/http.ts'
import { MAIN, measureMain } from './groups/main.ts'
import { measureRecords } from './groups/records.ts'
import { measureRelay } from './groups/relay.ts'
import { measureSqlite } from './groups/sqlite.ts'
import { BadOption, readOptions, USAGE } from './options.ts'
import type { Options } from './options.ts'
import { asJson, asTable } from './report.ts'
import type { Report } from './report.ts'
import { CALLERS, onServer } from './support/database.ts'

const GROUPS = ['http', 'delayed', 'sqlite', 'records', 'costs', 'relay', 'consumer']

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, [...Object.keys(MAIN), ...GROUPS])
  if (options === 'help') {
    console.log(USAGE)
    return 0
  }
  const servers = await startServers(['postgres'])
  try {
    if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const report = await measure(options, servers.postgres.url)
    console.log(options.json ? asJson(report) : asTable(report))
    const missed = report.bars.filter(({ holds }) => !holds)
    for (const { ratio, value, bar } of missed) note(`missed: ${ratio} is ${value.toFixed(2)}, must be ${bar}`)
    return options.check && missed.length > 0 ? 1 : 0
  } finally {
    await servers.stop()
  }
}

async function measure(options: Options, serverUrl: string): Promise<Report> {
  const { only } = options
  const asked = (name: string): boolean => only === null || only.has(name)
  const anyScenario = Object.keys(MAIN).some(asked)
  const bench = (group: string): Bench => ({
    options,
    serverUrl,
    progress: (text) => note(`${group}: ${text}`),
    // A group that is asked for by its own name is measured whole.
    wants: (name) => only === null || !anyScenario || only.has(name),
  })
  const main = anyScenario ? await measureMain(bench('main')) : { ratios: {}, rates: {}, cpu: {} }
  const http = asked('http') ? await measureHttp(bench('http')) : undefined
  const delayed = asked('delayed') ? await measureDelayed(bench('delayed')) : undefined
  const sqlite = asked('sqlite') ? await measureSqlite(bench('sqlite')) : undefined
  const costs = asked('costs') ? await countCosts(bench('costs')) : undefined
  const records = asked('records') ? await measureRecords(bench('records')) : undefined
  const relay = asked('relay') ? await measureRelay(bench('relay')) : undefined
  const consumer = asked('consumer') ? await measureConsumer(bench('consumer')) : undefined
  const ratios = { ...main.ratios, ...http?.ratios, ...records?.ratios, ...relay?.ratios, ...consumer?.ratios }
  const rates = { ...main.rates, ...consumer?.rates }
  const { rows } = await onServer(serverUrl, `select current_setting('server_version') as version`)
  return {
    measured: {
      quick: options.quick,
      rounds: options.rounds,
      seconds: options.seconds,
      callers: CALLERS,
      postgres: String(rows[0]?.version).split(' ')[0] as string,
      node: process.versions.node,
      cores: cpus().length,
    },
    ratios,
    rates,
    cpu: main.cpu,
    ...(http && { http }),
    ...(delayed && { delayed }),
    ...(sqlite && { sqlite }),
    ...(records && { records }),
    ...(costs && { costs }),
    ...(relay && { relay }),
    bars: judge(ratios, {
      ...rates,
      ...relay?.rates,
      ...relay?.latencyMs,
      ...(relay && { relayDeadRows: relay.deadRows }),
    }),
  }
}

function note(text: string): void {
  process.stderr.write(`${text}\n`)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (error instanceof BadOption) {
    note(`${error.message}. See npm run bench -- --help`)
    process.exitCode = 2
  } else {
    note(error instanceof Error ? (error.stack ?? error.message) : String(error))
    process.exitCode = 3
  }
}
