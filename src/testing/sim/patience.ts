import { CONSUMER_BACKOFF_MS, RELAY_BACKOFF_MS } from '../../limits.ts'
import { CALL_PATIENCE_MS, ENCORE_LATE_MAX, ENCORES_MAX } from './clients.ts'
import type { Temper } from './outbox-plan.ts'
import type { Plan, Settings } from './plan.ts'
import { RESTART_MS_MAX } from './process.ts'

/** Steps for work without waits: statements, sends and turns of handlers. */
const WORK_STEPS = 5_000
const STEPS_PER_OPERATION = 200
/** The leases of redrives are long and must lapse. */
const REDRIVE_STEPS = 30_000
/** Actors poll while others wait. Three relays and six consumers make between one and two steps per millisecond. */
export const STEPS_PER_MS = 2
const RATED_TRIES = 6

type World = Pick<Settings, 'relay' | 'consumer' | 'readers' | 'redrives' | 'replayForMs'>

/**
 * The number of steps in which a world without faults must come to rest. It covers the longest waits, one after the
 * other: clients that return after their answers have expired, retry delays, and leases of processes that an event
 * killed. A world at rest ends at once, so a large bound costs time only in worlds that never rest.
 */
export function stepsInPeace(world: World, plans: readonly Pick<Plan, 'events'>[]): number {
  const work = (world.redrives ? REDRIVE_STEPS : WORK_STEPS) + plans.length * STEPS_PER_OPERATION
  return Math.ceil(work + STEPS_PER_MS * (encoresMs(world) + eventsMs(world, plans)))
}

function encoresMs({ replayForMs }: World): number {
  return ENCORES_MAX * (ENCORE_LATE_MAX * replayForMs + CALL_PATIENCE_MS)
}

/**
 * One event may delay all others: those of its aggregate, those of its batch, and those of a process that it kills. A
 * client that returns after its answer has expired publishes its events again.
 */
function eventsMs({ relay, consumer, readers }: World, plans: readonly Pick<Plan, 'events'>[]): number {
  let ms = 0
  for (const { temper, taste } of plans.flatMap(({ events }) => events)) {
    if (relay !== null) ms += troubleMs(temper, relay.attempts, RELAY_BACKOFF_MS, relay.leaseMs)
    ms += perEventMs(relay?.rate) + readers.length * perEventMs(consumer?.rate)
    if (consumer !== null)
      ms += readers.length * troubleMs(taste, consumer.attempts, CONSUMER_BACKOFF_MS, consumer.holdsForMs)
  }
  return (1 + ENCORES_MAX) * ms
}

/** The time that a rate limit adds for each event and each of its retries. */
function perEventMs(rate: number | null | undefined): number {
  return rate ? (RATED_TRIES * 1_000) / rate : 0
}

/** The time from the first attempt until the event was sent or parked. */
function troubleMs(temper: Temper, attempts: number, backoffMs: number, lapsesMs: number): number {
  if (temper.is === 'fine') return 0
  // One attempt more than allowed, because the first crash does not show which event of the batch caused it.
  if (temper.is === 'deadly') return (attempts + 1) * (lapsesMs + RESTART_MS_MAX)
  return backoffsMs(backoffMs, temper.is === 'failing' ? temper.times : attempts)
}

/** Each delay is up to twice as long as the one before. */
function backoffsMs(firstMs: number, times: number): number {
  return firstMs * (2 ** times - 1)
}
