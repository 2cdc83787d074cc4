import { CONSUMER_BACKOFF_MS, RELAY_BACKOFF_MS } from '../../limits.ts'
import { CALL_PATIENCE_MS, ENCORE_LATE_MAX, ENCORES_MAX } from './clients.ts'
import type { Temper } from './outbox-plan.ts'
import type { Plan, Settings } from './plan.ts'
import { RESTART_MS_MAX } from './process.ts'

/** Work without waits: statements, sends, turns of handlers. */
const WORK_STEPS = 5_000
const STEPS_PER_OPERATION = 200
/** Leases of redrives are long, and must lapse. */
const REDRIVE_STEPS = 30_000
/** Who waits does so in time, and the others look around meanwhile: three relays and six consumers make about one. */
const STEPS_PER_MS = 1

type World = Pick<Settings, 'relay' | 'consumer' | 'readers' | 'redrives' | 'replayForMs'>

/**
 * The steps in which a world without faults must be at rest. They cover its longest waits, one after the other: clients
 * that come back after their answers have expired, backoffs of what fails, and leases of those whom an event killed. A
 * world at rest ends at once, so that a large bound costs nothing but in worlds that never rest.
 */
export function stepsInPeace(world: World, plans: readonly Pick<Plan, 'events'>[]): number {
  const work = (world.redrives ? REDRIVE_STEPS : WORK_STEPS) + plans.length * STEPS_PER_OPERATION
  return Math.ceil(work + STEPS_PER_MS * (encoresMs(world) + eventsMs(world, plans)))
}

function encoresMs({ replayForMs }: World): number {
  return ENCORES_MAX * (ENCORE_LATE_MAX * replayForMs + CALL_PATIENCE_MS)
}

/**
 * One event may keep all others waiting: those of its aggregate, those of its batch, and whoever dies of it. Who comes
 * back after its answer has expired publishes its events again.
 */
function eventsMs({ relay, consumer, readers }: World, plans: readonly Pick<Plan, 'events'>[]): number {
  let ms = 0
  for (const { temper, taste } of plans.flatMap(({ events }) => events)) {
    if (relay !== null) ms += troubleMs(temper, relay.attempts, RELAY_BACKOFF_MS, relay.leaseMs)
    if (consumer !== null)
      ms += readers.length * troubleMs(taste, consumer.attempts, CONSUMER_BACKOFF_MS, consumer.holdsForMs)
  }
  return (1 + ENCORES_MAX) * ms
}

/** From the first attempt until it went through or was given up. */
function troubleMs(temper: Temper, attempts: number, backoffMs: number, lapsesMs: number): number {
  if (temper.is === 'fine') return 0
  // Once more than it is tried: of its first batch nobody knows which one it was.
  if (temper.is === 'deadly') return (attempts + 1) * (lapsesMs + RESTART_MS_MAX)
  return backoffsMs(backoffMs, temper.is === 'failing' ? temper.times : attempts)
}

/** Each is up to twice as long as the one before. */
function backoffsMs(firstMs: number, times: number): number {
  return firstMs * (2 ** times - 1)
}
