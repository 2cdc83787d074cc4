import { cpus, loadavg } from 'node:os'
import { judge } from './bars.ts'
import { measureConsumer } from './groups/consumer.ts'
import { countCosts } from './groups/costs.ts'
import { measureDelayed } from './groups/delayed.ts'
import type { Bench, Found } from './groups/group.ts'
import { measureHttp } from './groups/http.ts'
import { MAIN, measureMain } from './groups/main.ts'
import { measureRecords } from './groups/records.ts'
import { measureRelay } from './groups/relay.ts'
import { measureSqlite } from './groups/sqlite.ts'
import { CASE_NAMES, FRAMEWORKS } from './http/cases.ts'
import { BadOption, readOptions, USAGE } from './options.ts'
import type { Options } from './options.ts'
import { asJson, asTable } from './report.ts'
import type { Report } from './report.ts'
import { runName, storeResults } from './results/store.ts'
import { CALLERS } from './support/database.ts'
import { isRunning, runUnder } from './support/node.ts'
import { startPostgres, type BenchServer } from './support/server.ts'

const HTTP_CASES = FRAMEWORKS.flatMap((framework) => CASE_NAMES.map((name) => `${framework}.${name}`))
const GROUPS = ['http', ...FRAMEWORKS, 'delayed', 'sqlite', 'records', 'costs', 'relay', 'consumer']

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, [...Object.keys(MAIN), ...GROUPS, ...HTTP_CASES])
  if (options === 'help') {
    console.log(USAGE)
    return 0
  }
  if (options.node !== null && !isRunning(options.node)) return runUnder(options.node)
  const server = await startPostgres(options.postgres)
  try {
    const report = await measure(options, server)
    if (options.write) store(report)
    console.log(options.json ? asJson(report) : asTable(report))
    const missed = report.bars.filter(({ holds }) => !holds)
    for (const { ratio, of, value, bar } of missed)
      note(`missed: ${ratio} (${of}) is ${value.toFixed(2)}, must be ${bar}`)
    return options.check && missed.length > 0 ? 1 : 0
  } finally {
    await server.stop()
  }
}

/** A run of a part keeps the other parts of an earlier run on the same versions. */
function store(report: Report): void {
  storeResults((results) => {
    const name = runName(report)
    const earlier = results.runs[name]
    const verdicts = [...(earlier?.bars ?? []), ...report.bars]
    const bars = [...new Map(verdicts.map((verdict) => [verdict.ratio, verdict])).values()]
    const run = { ...earlier, ...report, http: { ...earlier?.http, ...report.http }, bars }
    return { ...results, runs: { ...results.runs, [name]: run } }
  })
}

async function measure(options: Options, server: BenchServer): Promise<Report> {
  const { url: serverUrl, version } = server
  const load = Math.round((loadavg()[0] ?? Number.NaN) * 10) / 10
  const { only } = options
  const asked = (name: string): boolean => only === null || only.has(name)
  const anyScenario = Object.keys(MAIN).some(asked)
  const bench = (group: string): Bench => ({
    options,
    serverUrl,
    server,
    progress: (text) => note(`${group}: ${text}`),
    // A group that is asked for by its own name is measured whole.
    wants: (name) => only === null || !anyScenario || only.has(name),
  })
  const main = anyScenario ? await measureMain(bench('main')) : undefined
  const http: Record<string, Found> = {}
  for (const framework of FRAMEWORKS) {
    const whole = asked('http') || asked(framework)
    const wants = (name: string): boolean => whole || asked(name)
    if (!whole && !CASE_NAMES.some((name) => asked(`${framework}.${name}`))) continue
    http[framework] = await measureHttp({ ...bench(framework), wants }, framework)
  }
  const delayed = asked('delayed') ? await measureDelayed(bench('delayed')) : undefined
  const sqlite = asked('sqlite') ? await measureSqlite(bench('sqlite')) : undefined
  const costs = anyScenario || asked('costs') ? await countCosts(bench('costs')) : undefined
  const records = asked('records') ? await measureRecords(bench('records')) : undefined
  const relay = asked('relay') ? await measureRelay(bench('relay')) : undefined
  const consumer = asked('consumer') ? await measureConsumer(bench('consumer')) : undefined
  const groups = [main, ...Object.values(http), sqlite, records, relay, consumer]
  return {
    measured: {
      quick: options.quick,
      rounds: options.rounds,
      seconds: options.seconds,
      callers: CALLERS,
      postgres: version,
      node: process.versions.node,
      cores: cpus().length,
      load,
    },
    ...(main && { main }),
    http,
    ...(delayed && { delayed }),
    ...(sqlite && { sqlite }),
    ...(records && { records }),
    ...(costs && { costs }),
    ...(relay && { relay }),
    ...(consumer && { consumer }),
    bars: judge({
      cpu: Object.assign({}, ...Object.values(http).map(({ cpuRatios }) => cpuRatios)),
      ratios: Object.assign({}, ...groups.map((group) => group?.ratios)),
      rates: {
        ...consumer?.rates,
        ...relay?.rates,
        ...relay?.latencyMs,
        ...(relay && { relayDeadRows: relay.deadRows }),
      },
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
