/**
 * The long runs on real brokers. Each run prints its counts, and fails when a guarantee was violated.
 *
 * npm run chaos:brokers -- nats [events] [--kills N]
 *     Ends relays by SIGKILL at random.
 * npm run chaos:consumer -- nats [events] [--in-order] [--kills N] [--copies 5] [--minutes 30] [--flaw=…]
 *     Delivers every event 1-5 times to consumers that are ended by SIGKILL at random. The order is random with
 *     `ordered` events, or kept without them. `table` and `outbox` are also possible.
 * npm run chaos:outage -- nats [seconds]
 *     Stops the broker during the run and starts it again.
 */
import { parseArgs } from 'node:util'
import { judged } from './chaos-run.ts'
import { startAlone, startServers, type RunningServer } from './servers/index.ts'
import { brokerNamed, brokerNames } from '../test/broker/support/broker.ts'
import { feedNames } from '../test/broker/support/consumer-feeds.ts'
import { FLAWS } from '../test/broker/support/consumer-flaws.ts'
import type { Halting } from '../test/broker/support/describe-broker.ts'
import { consumerChaos } from '../test/broker/support/consumer-chaos.ts'
import { brokerOutage } from '../test/broker/support/outage.ts'
import { relayChaos } from '../test/broker/support/relay-chaos.ts'

const MINUTES = 30
const COPIES = 5
/** A lost event never arrives, so a run with a flaw gets less time. */
const FLAWED_MS = 120_000
const EVENTS = 100_000
const OUTAGE_SECONDS = 30
/**
 * With full jitter up to 30 s, a relay makes a few dozen calls in half a minute. A relay that does not wait makes
 * thousands.
 */
const ATTEMPTS_PER_OUTAGE_MAX = 60

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'in-order': { type: 'boolean', default: false },
    flaw: { type: 'string', default: 'none' },
    kills: { type: 'string' },
    copies: { type: 'string' },
    minutes: { type: 'string' },
  },
})
const timeoutMs = numberOf('minutes', MINUTES) * 60_000

function numberOf(name: 'kills' | 'copies' | 'minutes', fallback: number): number {
  const value = Number(options[name] ?? fallback)
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} must be a whole number from 1`)
  return value
}

const [kind = '', name = '', amount] = positionals

async function brokers({ url }: RunningServer, database: string): Promise<number> {
  const events = Number(amount ?? EVENTS)
  const kills = numberOf('kills', Math.max(3, Math.round(events / 5_000)))
  const params = { broker: name, url, database, events, relays: 4, kills, replace: true, timeoutMs }
  const result = await relayChaos(params)
  console.log(result)
  return judged({
    lost: result.lost,
    'kills too few': kills - result.kills,
    'out of order': result.ordered ? result.inversions : 0,
    'twice, although the broker promised otherwise': result.duplicatesAllowed ? 0 : result.duplicates,
  })
}

async function outage(server: RunningServer, database: string): Promise<number> {
  if (!server.halt || !server.resume) throw new Error(`this ${name} cannot be halted`)
  const outageMs = Number(amount ?? OUTAGE_SECONDS) * 1_000
  const params = { broker: name, server: server as Halting, database, events: 9_000, outageMs, timeoutMs }
  const result = await brokerOutage(params)
  console.log(result)
  const tooMany = Math.max(0, result.attempts - ATTEMPTS_PER_OUTAGE_MAX)
  return judged({ lost: result.lost, 'out of order': result.inversions, 'attempts too many': tooMany })
}

async function consumers(url: string, database: string): Promise<number> {
  const events = Number(amount ?? EVENTS)
  const kills = numberOf('kills', Math.max(4, Math.round(events / 4_000)))
  const copies = numberOf('copies', COPIES)
  const flaw = FLAWS.find((known) => known === options.flaw)
  if (!flaw) throw new Error(`no flaw '${options.flaw}'; there are ${FLAWS.join(', ')}`)
  const params = {
    broker: name,
    url,
    database,
    events,
    consumers: 4,
    kills,
    copies,
    flaw,
    inOrder: options['in-order'],
  }
  const result = await consumerChaos({ ...params, timeoutMs: flaw === 'none' ? timeoutMs : FLAWED_MS })
  console.log(JSON.stringify(result))
  const { lost, twice, orderBreaks, deadLetters, unsettled } = result
  const tooFew = kills - result.kills
  return judged({
    lost,
    twice,
    'out of order': orderBreaks,
    'dead letters': deadLetters,
    unsettled,
    'kills too few': tooFew,
  })
}

const runs = { brokers, outage, consumer: ({ url }: RunningServer, database: string) => consumers(url, database) }

async function main(): Promise<number> {
  const names = kind === 'consumer' ? feedNames : brokerNames
  if (!Object.hasOwn(runs, kind) || !names.some((known) => known === name)) {
    console.error(
      `usage: npm run chaos:${kind === 'consumer' ? kind : 'brokers'} -- <${names.join('|')}> [events], or chaos:outage -- <…> [seconds]`,
    )
    return 2
  }
  const isBroker = brokerNames.some((known) => known === name)
  const alone = isBroker ? await startAlone((await brokerNamed(name)).server) : undefined
  const servers = await startServers(['postgres'])
  try {
    if (alone && 'missing' in alone) throw new Error(`no ${name}: ${alone.missing}`)
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const database = servers.postgres.url
    return await (alone ? runs[kind as keyof typeof runs](alone, database) : consumers('', database))
  } finally {
    if (alone && 'stop' in alone) await alone.stop()
    await servers.stop()
  }
}

process.exitCode = await main()
