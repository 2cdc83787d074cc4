/**
 * The long runs on real brokers. Each prints what it counted and fails when a promise was broken.
 *
 * npm run chaos:brokers -- nats [events]     relays killed by SIGKILL at random
 * npm run chaos:consumer -- nats [events]    every event sent 1-5 times, to consumers killed by SIGKILL at random
 * npm run chaos:outage -- nats [seconds]     the broker stopped in mid-run and started again
 */
import { startAlone, startServers, type RunningServer } from './servers/index.ts'
import { brokerNamed, brokerNames } from '../test/broker/support/broker.ts'
import type { Halting } from '../test/broker/support/describe-broker.ts'
import { consumerChaos } from '../test/broker/support/consumer-chaos.ts'
import { brokerOutage } from '../test/broker/support/outage.ts'
import { relayChaos } from '../test/broker/support/relay-chaos.ts'

const TIMEOUT_MS = 1_800_000
const EVENTS = 100_000
const OUTAGE_SECONDS = 30
/** Full jitter up to 30 s: a relay that waits makes a few dozen calls in half a minute, one that does not, thousands. */
const ATTEMPTS_PER_OUTAGE_MAX = 60

const [kind = '', name = '', amount] = process.argv.slice(2)

async function brokers({ url }: RunningServer, database: string): Promise<string[]> {
  const events = Number(amount ?? EVENTS)
  const kills = Math.max(3, Math.round(events / 5_000))
  const params = { broker: name, url, database, events, relays: 4, kills, replace: true, timeoutMs: TIMEOUT_MS }
  const result = await relayChaos(params)
  console.log(result)
  return broken({
    lost: result.lost,
    'out of order': result.inversions,
    'twice, although the broker promised otherwise': result.duplicatesAllowed ? 0 : result.duplicates,
  })
}

async function outage(server: RunningServer, database: string): Promise<string[]> {
  if (!server.halt || !server.resume) throw new Error(`this ${name} cannot be halted`)
  const outageMs = Number(amount ?? OUTAGE_SECONDS) * 1_000
  const params = { broker: name, server: server as Halting, database, events: 9_000, outageMs, timeoutMs: TIMEOUT_MS }
  const result = await brokerOutage(params)
  console.log(result)
  const tooMany = Math.max(0, result.attempts - ATTEMPTS_PER_OUTAGE_MAX)
  return broken({ lost: result.lost, 'out of order': result.inversions, 'attempts too many': tooMany })
}

async function consumers({ url }: RunningServer, database: string): Promise<string[]> {
  const events = Number(amount ?? EVENTS)
  const kills = Math.max(3, Math.round(events / 5_000))
  const result = await consumerChaos({
    broker: name,
    url,
    database,
    events,
    consumers: 4,
    kills,
    timeoutMs: TIMEOUT_MS,
  })
  console.log(result)
  const { lost, twice, inversions, deadLetters, unsettled } = result
  return broken({ lost, twice, 'out of order': inversions, 'dead letters': deadLetters, unsettled })
}

function broken(counts: Record<string, number>): string[] {
  return Object.entries(counts).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []))
}

const runs = { brokers, outage, consumer: consumers }

async function main(): Promise<number> {
  if (!Object.hasOwn(runs, kind) || !brokerNames.some((known) => known === name)) {
    console.error(
      `usage: npm run chaos:brokers -- <${brokerNames.join('|')}> [events], or chaos:outage -- <…> [seconds]`,
    )
    return 2
  }
  const { server: serverName } = await brokerNamed(name)
  const alone = await startAlone(serverName)
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in alone) throw new Error(`no ${serverName}: ${alone.missing}`)
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const database = servers.postgres.url
    const problems = await runs[kind as keyof typeof runs](alone, database)
    for (const problem of problems) console.error(`BROKEN: ${problem}`)
    return problems.length > 0 ? 1 : 0
  } finally {
    if ('stop' in alone) await alone.stop()
    await servers.stop()
  }
}

process.exitCode = await main()
