import { openWorld, type World } from '../../consumer/world.ts'
import { openFeed, type Feed } from './consumer-feeds.ts'
import type { PlantedFlaw } from './consumer-flaws.ts'
import { eventsOf, sendsOf } from './consumer-sends.ts'
import { Processes } from './processes.ts'

const LOOK_MS = 250
const PORTION = 5_000
/** So far may sending be ahead of the consumers: what is given back to a queue comes after everything in it. */
const AHEAD = 20_000
/** With a planted mistake something may never come: it is over when nothing happens for so long. */
const QUIET_MS = 10_000

export interface ConsumerChaosParams {
  /** A broker, 'table' or 'outbox'. */
  readonly broker: string
  readonly url: string
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly consumers: number
  readonly kills: number
  /** Delivered in order, without `ordered` events. Default: in random order, half of the aggregates with them */
  readonly inOrder?: boolean
  /** How often an event comes at most. Default: 5 */
  readonly copies?: number | undefined
  readonly flaw?: PlantedFlaw
  readonly timeoutMs: number
}

export interface ConsumerChaosResult {
  readonly broker: string
  readonly delivered: 'in order' | 'in random order'
  readonly events: number
  readonly deliveries: number
  readonly kills: number
  /** Effects that did not happen. */
  readonly lost: number
  /** Effects that happened more than once, and events published by them. */
  readonly twice: number
  /** Effects that did not see the one before them, of aggregates that have an order. */
  readonly orderBreaks: number
  readonly deadLetters: number
  /** The broker has nothing left to deliver. */
  readonly settled: boolean
  readonly unsettled: number
  readonly seconds: number
  /** Where the seconds went. */
  readonly phases: ConsumerChaosPhases
}

export interface ConsumerChaosPhases {
  /** Until the first consumers are ready. */
  readonly starting: number
  /** Until the last event was sent; the consumers are at work meanwhile. */
  readonly feeding: number
  /** From then on until every effect is there. */
  readonly consuming: number
  /** From then on until the broker has nothing left. */
  readonly settling: number
  readonly comparing: number
}

/**
 * Each event is delivered 1 to 5 times to consumer processes that are killed at random, half of the time the one that
 * worked last: of those that stand by nobody would learn anything.
 */
export async function consumerChaos(params: ConsumerChaosParams): Promise<ConsumerChaosResult> {
  const began = performance.now()
  const laps = new Laps()
  const { broker, events, inOrder = false, copies, flaw = 'none' } = params
  const place = `consumer_${Math.random().toString(36).slice(2)}`
  const world = await openWorld(params.database)
  const shared = flaw === 'shared'
  const feed = await openFeed({ name: broker, url: params.url, place, inOrder, shared }, world)
  const args = [broker, params.database, params.url, place, inOrder ? 'inOrder' : 'random', flaw]
  const consumers = new Processes('consumer-process', args)
  const wanted = sendsOf({ events, inOrder, copies })
  // The outbox has each of them once, in order: its source is made to repeat them.
  const sends = broker === 'outbox' ? eventsOf({ events, inOrder }) : wanted
  const deadline = performance.now() + params.timeoutMs
  try {
    await consumers.start(params.consumers)
    const starting = laps.next()
    const watch = new Watch(world, { deadline, quietMs: flaw === 'none' ? Infinity : QUIET_MS })
    let feeding = 0
    const sending = sendPaced(feed, sends, watch, events).then(() => (feeding = laps.next()))
    await Promise.all([sending, killAtRandom(consumers, watch, params)])
    await untilOver(watch, async () => (await world.count('(select distinct id from applied) a')) >= events)
    const consuming = laps.next()
    await untilOver(watch, async () => (await feed.unsettled()) === 0)
    const settling = laps.next()
    await consumers.end()
    const outcome = { ...(await outcomeOf(world, events)), ...(await leftOf(feed)) }
    return {
      broker,
      delivered: inOrder ? 'in order' : 'in random order',
      events,
      deliveries: wanted.length,
      kills: consumers.kills,
      ...outcome,
      seconds: seconds(performance.now() - began),
      phases: { starting, feeding, consuming, settling, comparing: laps.next() },
    }
  } finally {
    await consumers.end()
    await feed.close()
    await world.close()
  }
}

/** The seconds from one to the next. */
class Laps {
  #last = performance.now()

  next(): number {
    const [before, now] = [this.#last, performance.now()]
    this.#last = now
    return seconds(now - before)
  }
}

function seconds(ms: number): number {
  return Math.round(ms / 100) / 10
}

/** How far it is, and when there is nothing more to wait for. */
class Watch {
  readonly world: World
  readonly #until: { readonly deadline: number; readonly quietMs: number }
  #last = 0
  #changedAt = performance.now()

  constructor(world: World, until: { readonly deadline: number; readonly quietMs: number }) {
    this.world = world
    this.#until = until
  }

  /** About: also of what was rolled back. Counting the rows each time would be most of the database's work. */
  async progress(): Promise<number> {
    const { rows } = await this.world.pool.query<{ n: string }>('select last_value as n from applied_seq_seq')
    const now = Number(rows[0]?.n ?? 0)
    if (now !== this.#last) this.#changedAt = performance.now()
    this.#last = now
    return now
  }

  get isOver(): boolean {
    const now = performance.now()
    return now > this.#until.deadline || now - this.#changedAt > this.#until.quietMs
  }
}

async function sendPaced(feed: Feed, sends: ReturnType<typeof sendsOf>, watch: Watch, events: number): Promise<void> {
  for (let at = 0; at < sends.length; at += PORTION) {
    const isAhead = async (): Promise<boolean> => at - ((await watch.progress()) / events) * sends.length > AHEAD
    while ((await isAhead()) && !watch.isOver) await sleep(LOOK_MS)
    await feed.send(sends.slice(at, at + PORTION))
  }
}

/** Spread over the run: one for each part of the events that is applied. */
async function killAtRandom(consumers: Processes, watch: Watch, { kills, events }: ConsumerChaosParams): Promise<void> {
  const { world } = watch
  while (consumers.kills < kills && !watch.isOver) {
    const applied = await watch.progress()
    if (applied >= events && (await world.count('applied')) >= events) return
    if (consumers.kills < Math.floor((applied / events) * (kills + 1))) {
      await consumers.replaceOne(Math.random() < 0.5 ? await lastAtWork(world) : undefined)
    }
    await sleep(50 + Math.random() * 150)
  }
}

async function lastAtWork(world: World): Promise<number | undefined> {
  const { rows } = await world.pool.query<{ who: string }>('select who from applied order by seq desc limit 1')
  return rows[0] && Number(rows[0].who)
}

async function untilOver(watch: Watch, isDone: () => Promise<boolean>): Promise<void> {
  // Whoever is asked may be late with its answer: what counts is the last look.
  const look = async (): Promise<boolean> => isDone().catch(() => false)
  while (!watch.isOver && !(await look())) {
    await watch.progress()
    await sleep(LOOK_MS)
  }
}

async function outcomeOf(
  world: World,
  events: number,
): Promise<Pick<ConsumerChaosResult, 'lost' | 'twice' | 'orderBreaks' | 'deadLetters'>> {
  const published = `effectively_once.event where type = 'step.seen'`
  const once = await world.count(`(select distinct payload->>'id' from ${published}) e`)
  return {
    lost: events - (await world.count('(select distinct id from applied) a')),
    twice:
      (await world.count('(select id from applied group by id having count(*) > 1) a')) +
      ((await world.count(published)) - once),
    orderBreaks: await world.count(`applied where aggregate not like 'u%' and before <> n - 1`),
    deadLetters: await world.count('effectively_once.dead_letter'),
  }
}

async function leftOf(feed: Feed): Promise<Pick<ConsumerChaosResult, 'settled' | 'unsettled'>> {
  const unsettled = await feed.unsettled()
  return { settled: unsettled === 0, unsettled }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
