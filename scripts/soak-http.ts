/**
 * Keeps one HTTP adapter under load on keep-alive connections, with faults. The faults are aborted requests, failing
 * streams, double and late answers, thrown errors, 5xx, replays, mismatches and killed connections. Prints one line of
 * JSON. Fails on an uncaught exception, on an answer to another request, on a failure that the faults do not explain,
 * and when the heap grows.
 *
 * npm run soak:http -- --adapter express|fastify|nest|koa|hono [--minutes N] [--json]
 */
import { parseArgs } from 'node:util'
import pg from 'pg'
import { type Adapter, ADAPTERS } from '../test/soak-http/kinds.ts'
import { problemsOf, soak, type SoakResult } from '../test/soak-http/soak.ts'
import { isMissing, startServers } from './servers/index.ts'

/** The maximum ratio of the last heap size to the heap size at minute 5. */
const GROWTH_MAX = 1.05
const TEXT = { type: 'string' } as const
const { values } = parseArgs({ options: { adapter: TEXT, minutes: TEXT, json: { type: 'boolean', default: false } } })

async function main(): Promise<number> {
  const adapter = ADAPTERS.find((known) => known === values.adapter)
  if (!adapter) throw new Error(`--adapter is one of ${ADAPTERS.join(', ')}`)
  const minutes = Number(values.minutes ?? 20)
  if (!(minutes > 0)) throw new Error('--minutes must be a number above 0')
  const servers = await startServers(['postgres'])
  try {
    if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    return await judged(adapter, minutes, servers.postgres.url)
  } finally {
    await servers.stop()
  }
}

async function judged(adapter: Adapter, minutes: number, serverUrl: string): Promise<number> {
  const name = `soak_http_${process.pid}`
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  await client.query(`create database ${name}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const tell = (line: string): void => console.error(line)
  try {
    return report(await soak(adapter, { minutes, url: url.href, tell }))
  } finally {
    await client.query(`drop database ${name} with (force)`)
    await client.end()
  }
}

function report(result: SoakResult): number {
  console.log(values.json ? JSON.stringify(result) : result)
  const problems = problemsOf(result, GROWTH_MAX)
  for (const problem of problems) console.error(`BROKEN: ${problem}`)
  return problems.length > 0 ? 1 : 0
}

process.exitCode = await main()
