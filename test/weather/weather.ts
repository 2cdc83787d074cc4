import { startAlone, type RunningServer } from '../../scripts/servers/index.ts'
import { Dice } from '../../src/testing/sim/dice.ts'
import { brokerNamed, type BrokerPlace } from '../broker/support/broker.ts'
import { CONSUMER } from './catalogue.ts'
import type { Crew, Post } from './crew.ts'
import type { Database } from './database.ts'
import { FAULTS, Free, inject, type FaultKind, type Surroundings } from './faults.ts'
import type { Operator } from './operator.ts'
import { closing, openScene, postsOf, type AtEnd } from './scene.ts'
import { Schedule } from './schedule.ts'
import { explain } from './explain.ts'
import { judge, type Rows, type Verdict } from './verifier.ts'
import { Journal, named, type NamedViolation } from './violations.ts'
import { tellsOfRewind } from './doctor.ts'
import { QUORUMS } from './quorum.ts'
import { BOUND_MS, type Watch } from './watch.ts'
import { setTimeout as sleep } from 'node:timers/promises'

export const BROKERS = ['none', 'nats', 'redis', 'kafka', 'rabbitmq'] as const
export type WeatherBroker = (typeof BROKERS)[number]

const TRIES = 4
const WARM_UP_MS = 3_000
/** The consumer must have settled its messages at the broker within this time. */
const LOOKS = 20
const LOOK_MS = 1_000
const RELAY_LEASE_MS = 5_000
/** The leases of the outbox source, and of brokers as the processes configure them. */
const CONSUMER_LEASE_MS = { none: 30_000, others: 5_000 }

export interface WeatherParams {
  readonly minutes: number
  readonly seed: number
  readonly broker: WeatherBroker
  /** Restricts the faults to these kinds, for debugging. */
  readonly only?: readonly string[]
  tell(line: string): void
}

export interface WeatherResult extends Verdict {
  readonly stuck: number
  readonly silent: number
  readonly callsPerEvent: number
  readonly droppedByFailover: number
  readonly faults: Readonly<Record<string, number>>
  /** The first violations. */
  readonly violations: readonly NamedViolation[]
}

/**
 * Runs producers, relays and consumers on real servers with every kind of fault. A calm phase follows, and then every
 * order is verified.
 */
export function weather(params: WeatherParams): Promise<WeatherResult> {
  return closing(params.tell, (atEnd) => run(params, atEnd))
}

async function run(params: WeatherParams, atEnd: AtEnd): Promise<WeatherResult> {
  const { tell, broker: name } = params
  let broker: OpenBroker | undefined
  const posts = async (hookUrl: string): Promise<Post[]> => {
    broker = await openBroker(name, atEnd)
    return postsOf(hookUrl, [name, broker?.server.url ?? '', broker?.placeName ?? ''])
  }
  const { database, hook, operator, crew, watch } = await openScene({ posts, tell }, atEnd)
  await sleep(WARM_UP_MS)

  let droppedByFailover = 0
  const at: Surroundings = {
    database,
    crew,
    hook,
    broker: broker?.server,
    killLeader: broker?.killLeader,
    relayLeaseMs: RELAY_LEASE_MS,
    consumerLeaseMs: name === 'none' ? CONSUMER_LEASE_MS.none : CONSUMER_LEASE_MS.others,
    tell,
    solo: false,
    on: () => {},
    overdue: (ms, exceptAggregate) => watch.overdue(ms, exceptAggregate),
    stuck: (line) => watch.isStuck(line),
    serves: () => watch.publishes(),
    async dropped({ orders, effects }, { since, knowing }) {
      droppedByFailover += orders.length + effects.length
      for (const event of [...orders, ...effects]) watch.dropped.add(event)
      tell(`the promotion dropped ${orders.length} orders and ${effects.length} effects`)
      // A log is read again from the position that the promoted server has. Other brokers have no record of messages
      // that were acknowledged for the lost server.
      if (broker && !broker.isLog) await operator.sendAgain(broker.destination)
      if (!orders.some((event) => knowing.has(hook.first.get(event)?.by ?? ''))) return
      if (await tellsOfRewind(() => database.primary.url, since, BOUND_MS)) tell('doctor tells of what was dropped')
      else watch.isSilent('doctor', 'an asynchronous promotion dropped what a relay had sent')
    },
  }
  const journal = new Journal()
  const faults = await storm(params, at, watch, journal)
  await calm({ crew, operator, watch, tell, broker, database })
  const hits = { ...faults, checkpoint: operator.checkpoints, turnedSegment: operator.turned }
  const rows: Rows = (text, values) => database.primary.rows(text, values)
  const { violations: found, ...verdict } = await judge(rows, { hook: hook.first, dropped: watch.dropped })
  const violations = named([...found, ...watch.violations], journal).map((violation) => {
    const { event, seen } = violation
    return event === undefined ? violation : { ...violation, seen: [...seen, ...hook.told(event)] }
  })
  const events = violations.flatMap(({ event }) => event ?? [])
  if (events.length > 0) for (const line of await explain(rows, events, watch.dropped)) tell(line)
  const { stuck, silent } = watch
  const { callsPerEvent } = hook
  return { ...verdict, stuck, silent, callsPerEvent, droppedByFailover, faults: hits, violations }
}

interface OpenBroker {
  readonly server: RunningServer
  readonly killLeader: Surroundings['killLeader']
  readonly place: BrokerPlace
  readonly placeName: string
  readonly destination: string
  /** The consumer stores its positions in the database. */
  readonly isLog: boolean
}

async function openBroker(name: WeatherBroker, atEnd: AtEnd): Promise<OpenBroker | undefined> {
  if (name === 'none') return undefined
  const placeName = 'weather'
  const quorum = name in QUORUMS ? await QUORUMS[name as keyof typeof QUORUMS]() : undefined
  const server = quorum ?? (await startAlone(name))
  if ('missing' in server) throw new Error(`no ${name}: ${server.missing}`)
  atEnd(() => server.stop())
  const place = await (await brokerNamed(name)).open({ url: server.url, place: placeName, make: true })
  atEnd(() => place.close())
  const sink = place.sink()
  // The sink must create its stream or queue before a consumer reads from it.
  await sink.open?.()
  await sink.close?.()
  const isLog = (await place.ends?.()) !== undefined
  const killLeader = quorum && (() => quorum.killLeader(placeName))
  return { server, killLeader, place, placeName, destination: sink.name, isLog }
}

/** Runs rounds of faults. After each round, everything must work again within the bound. */
async function storm(
  params: WeatherParams,
  at: Surroundings,
  watch: Watch,
  journal: Journal,
): Promise<Record<string, number>> {
  const { minutes, seed, only, tell } = params
  const kinds = (Object.keys(FAULTS) as FaultKind[]).filter(
    (kind) =>
      (kind !== 'brokerKilled' || at.broker !== undefined) &&
      (kind !== 'leaderKilled' || at.killLeader !== undefined) &&
      (only === undefined || only.includes(kind)),
  )
  const hits = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<FaultKind, number>
  const tries: Partial<Record<FaultKind, number>> = {}
  const dice = new Dice(seed)
  const schedule = new Schedule(dice, kinds, minutes)
  const [free, began] = [new Free(), performance.now()]
  while (performance.now() - began < minutes * 60_000 || !schedule.isThrough) {
    const round = schedule.next()
    tell(round.join(', '))
    const one = async (kind: FaultKind, own: Dice): Promise<void> => {
      await sleep(own.between(0, 1_500))
      const { on, end } = journal.begin(kind)
      const solo = round.length === 1
      const hit = await inject(kind, { ...at, solo, on }, own, free).catch((error: unknown) => {
        tell(`${kind} could not be done: ${String(error)}`)
        return false
      })
      end()
      tries[kind] = (tries[kind] ?? 0) + 1
      if (hit) hits[kind]++
      else if (hits[kind] === 0 && tries[kind] < TRIES) schedule.again(kind)
    }
    await Promise.all(round.map((kind) => one(kind, new Dice(dice.below(2 ** 31)))))
    if (!(await watch.recovers(round.join(', '), 'order.moved'))) await heal(at)
  }
  return hits
}

/** A stuck process would hide the next fault, so every relay and consumer is replaced. */
async function heal({ crew, tell }: Surroundings): Promise<void> {
  tell('every relay and consumer is replaced')
  const members = [...crew.of('relay'), ...crew.of('consumer')]
  await Promise.all(members.map((member) => crew.replace(member, 'SIGKILL')))
  await crew.untilReady()
}

interface Calm {
  readonly crew: Crew
  readonly operator: Operator
  readonly watch: Watch
  readonly broker: OpenBroker | undefined
  readonly database: Database
  tell(line: string): void
}

/** Stops publishing, deploys the second version to every process, and waits until all remaining work is done. */
async function calm({ crew, operator, watch, broker, database, tell }: Calm): Promise<void> {
  // From now on, some processes have no work.
  watch.end()
  await crew.dismiss('producer')
  const first = crew.of('consumer').filter(({ post }) => post.args[0] === 'v1')
  await Promise.all(first.map((member) => crew.replace(member, 'SIGTERM', ['v2', ...member.post.args.slice(1)])))
  await crew.untilReady()
  tell('calm')
  const redriving = operator.redriveAll()
  await watch.recovers('the calm')
  await redriving
  if (!broker) return
  let left = await unsettled(broker, database)
  for (let look = 0; left > 0 && look < LOOKS; look++) {
    await sleep(LOOK_MS)
    left = await unsettled(broker, database)
  }
  if (left === 0) return
  const line = `the broker still has ${left} messages for ${CONSUMER}`
  // Events whose predecessor was dropped by a failover may wait for a long time.
  if (watch.dropped.size > 0) tell(line)
  else watch.isStuck(line)
}

/**
 * The number of messages that the consumer has not received or settled yet. For a log, the positions in the database
 * decide.
 */
async function unsettled({ place }: OpenBroker, database: Database): Promise<number> {
  const ends = await place.ends?.()
  if (!ends) return (await place.unsettled?.(CONSUMER)) ?? 0
  const rows = await database.primary.rows<{ partition: string; next: string }>(
    'select partition, next from effectively_once.position where consumer = $1',
    [CONSUMER],
  )
  const known = new Map(rows.map(({ partition, next }) => [partition, BigInt(next)]))
  const left = [...ends].map(([partition, end]) => Number(end - (known.get(partition) ?? 0n)))
  return left.reduce((sum, each) => sum + Math.max(0, each), 0)
}
