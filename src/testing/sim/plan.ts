import { identity } from '../../key/identity.ts'
import { crossingAddress, SCOPE } from './address.ts'
import type { Address } from './address.ts'
import { drawCompany } from './company.ts'
import type { Company } from './company.ts'
import type { Dice } from './dice.ts'
import { drawBatch, drawMeeting, MEETING, NO_TROUBLE } from './meeting.ts'
import type { NestedCalls, Trouble } from './meeting.ts'
import type { FaultKind } from './fault.ts'
import { drawConsumer, drawEvents, drawRelay } from './outbox-plan.ts'
import { drawReaders, NO_READERS, withLetters, withRivals } from './readers.ts'
import type { ReadersSettings, ReadersWanted } from './readers.ts'
import type { ConsumerSettings, PlannedEvent, RelaySettings } from './outbox-plan.ts'
import { NAMESPACES } from './service.ts'
import type { Service } from './service.ts'
import type { Mode } from './trace.ts'
import type { Weather } from './weather.ts'

/** The script of one key's operation: what its handler does, and how it is called. */
export interface Plan {
  /** A name that no other operation of this world has, in any scope. */
  readonly key: string
  /** The scope and the key that its clients send. */
  readonly address: Address
  readonly id: string
  readonly mode: Mode
  /** How long the handler sleeps, in milliseconds. */
  readonly sleepMs: number
  /** The number of executions that throw before one succeeds. */
  readonly failures: number
  /** The handler refuses finally. */
  readonly final: boolean
  /** The answer is too large to store. */
  readonly oversize: boolean
  /** The statement of a batched request violates a constraint. */
  readonly poison: boolean
  readonly steps: readonly PlannedStep[]
  /** The steps run in parallel. */
  readonly parallel: boolean
  /** The handler does database work that commits together with its step. */
  readonly stepTx: boolean
  /** The name of a group of operations whose inputs are compared with each other. */
  readonly family: string
  readonly service: Service
  /** The instance of the process that runs the operation. */
  readonly instance: 0 | 1
  /** The inner operations that the handler runs. */
  readonly nestedCalls: readonly NestedCalls[]
  /** How many times the user's own transaction is rolled back at its end. */
  readonly rollbacks: number
  /** The faults of the handler's own statements in the first executions. */
  readonly trouble: Trouble
  /** Rows that other operations lock too, in locking order. */
  readonly locks: readonly number[]
  readonly waitMs: number
  readonly recover: boolean
  /** The events that the handler publishes, in order. */
  readonly events: readonly PlannedEvent[]
}

/** An outside call of a leased handler, and whether the provider honours idempotency keys. */
export interface PlannedStep {
  readonly name: string
  readonly keyed: boolean
  readonly reconcile: boolean
  /** The number of calls that fail before one succeeds. */
  readonly failures: number
  /** How long the provider takes, in milliseconds. */
  readonly slowMs: number
  /** The step is undone if the operation is refused. */
  readonly undo?: boolean
}

/** The kind of world to create: any, one with relays, or one with relays and a given number of operations. */
export interface Size extends ReadersWanted {
  readonly relays: boolean
  /** The world has consumers behind the broker. */
  readonly consumers?: boolean
  /** The world has several tenants. */
  readonly scopes?: boolean
  /** An actor releases and skips parked events. Never chosen at random. */
  readonly releases?: boolean
  /** Chosen at random if left out. */
  readonly company?: Company
  /** Never chosen at random. */
  readonly weather?: Weather | null
  /** The processes share a cache of answers. Chosen at random if left out. */
  readonly tier?: boolean
  readonly operations: number | null
}

export const ANY: Size = { relays: false, operations: null }

/** The settings of one world. */
export interface Settings extends ReadersSettings {
  readonly processes: number
  readonly poolSize: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly replayForMs: number
  readonly goneForMs: number
  readonly expired: 'gone' | 'rerun'
  /** The probability that the server pauses inside a statement. */
  readonly workPause: number
  readonly chaosSteps: number
  /** The world has only leased operations, on several processes that are often paused past their leases. */
  readonly zombies: boolean
  /** The relay settings of every process, or null for a world without relays. */
  readonly relay: RelaySettings | null
  /** The consumer settings of every process, or null for a world without consumers. */
  readonly consumer: ConsumerSettings | null
  /** The number of clients that call at the same time, or null for all of them. */
  readonly lanes: number | null
  readonly aggregates: number
  readonly eventsMax: number
  /** The share of events that the broker refuses. */
  readonly trouble: number
  /** The world has several tenants, whose names and keys look alike. */
  readonly scopes: boolean
  readonly company: Company
  /** Consumers read the outbox of their own service, not the broker. */
  readonly table: boolean
  /** How long a leased operation may take as a whole. */
  readonly endsWithinMs: number
  /** An actor releases and skips parked events. */
  readonly releases: boolean
  readonly weather: Weather | null
}

const NOTHING: readonly PlannedEvent[] = []
const RELAYS_SHARE = 0.05
const CONSUMERS_SHARE = 0.3

const SCOPES_SHARE = 0.05

export function drawSettings(
  dice: Dice,
  {
    relays,
    consumers,
    scopes,
    releases: wantsReleases = false,
    company: asked,
    weather = null,
    operations,
    tier: _tier,
    ...wanted
  }: Size = ANY,
): Settings {
  const letters = weather === 'versions' || weather === 'imports'
  const resends = weather === 'resends'
  const cancels = weather === 'cancels'
  const many = operations !== null
  const deadlineMs = 150 + dice.below(150)
  const drawn = dice.chance(RELAYS_SHARE) || relays ? drawRelay(dice) : null
  const consuming = consumers || (!many && dice.chance(CONSUMERS_SHARE))
  const reading = drawn !== null && consuming ? drawConsumer(dice) : null
  const readers = reading === null ? NO_READERS : drawReaders(dice, { ...wanted, redrives: wanted.redrives || letters })
  const consumed = reading === null ? null : withWeather(dice, consumerOf(dice, readers, reading), weather)
  const kept = drawn !== null && consumed?.ordered ? { ...drawn, onFailure: 'block' as const } : drawn
  // A relay that parks an ordered event makes its successors wait for ever, so ordered worlds have no releases.
  const releases = wantsReleases && kept !== null && consumed?.ordered !== true
  const parking = kept !== null && releases ? { ...kept, onFailure: 'park' as const } : kept
  const delaying = parking !== null && cancels ? { ...parking, delayed: 0.7 } : parking
  const relay = delaying === null ? null : { ...delaying, ...relayWeather(dice, weather) }
  const company = asked ?? (many ? 'nobody' : drawCompany(dice, relay !== null))
  const services = company === 'services'
  const consumer = company === 'meets' && consumed !== null ? withVisits(dice, consumed) : consumed
  const zombies = relay === null && company === 'nobody' && dice.chance(0.25)
  return {
    processes: (zombies || many || consumer !== null ? 2 + dice.below(2) : 1 + dice.below(3)) + (services ? 1 : 0),
    poolSize: (many ? 4 : 1) + dice.below(4),
    leaseMs: 100 + dice.below(150),
    deadlineMs,
    replayForMs: 1_000 + dice.below(1_000),
    goneForMs: dice.chance(0.3) ? 0 : dice.below(2_000),
    expired: dice.chance(0.5) ? 'rerun' : 'gone',
    workPause: dice.chance(0.5) || readers.rivals ? dice.next() * 0.6 : 0,
    chaosSteps: many
      ? operations * 60
      : relay === null
        ? (zombies ? 100 : 40) + dice.below(160)
        : 150 +
          dice.below(350) +
          (releases || resends || cancels || weather === 'pauses' || weather === 'erasures'
            ? 800 + dice.below(1_200)
            : 0) +
          (readers.redrives ? 600 + dice.below(1_200) : 0),
    zombies,
    relay,
    consumer,
    ...readers,
    lanes: many ? 4 + dice.below(12) : null,
    aggregates: many ? 4 + dice.below(200) : 1 + dice.below(resends ? 2 : 4),
    // A resend needs more events of an aggregate than one read returns.
    eventsMax: many || resends ? 16 : weather === 'pauses' ? 8 : 3,
    trouble: releases
      ? dice.between(0.1, 0.5) / (many ? 10 : 1)
      : dice.chance(0.5)
        ? dice.next() * (many ? 0.01 : 0.4)
        : 0,
    scopes: scopes || dice.chance(SCOPES_SHARE),
    company,
    table:
      resends ||
      (cancels && dice.chance(0.5)) ||
      (services && consumer !== null && weather !== 'filters' && dice.chance(0.5)),
    endsWithinMs: 300 + dice.below(300),
    releases,
    weather,
  }
}

function consumerOf(dice: Dice, { redrives, rivals }: ReadersSettings, drawn: ConsumerSettings): ConsumerSettings {
  if (rivals) return withRivals(dice, drawn)
  return redrives ? withLetters(dice, drawn) : drawn
}

/**
 * Imported letters arrive out of order, and cancelled or filtered events never arrive. So these worlds are not ordered.
 */
function withWeather(dice: Dice, consumer: ConsumerSettings, weather: Weather | null): ConsumerSettings {
  if (weather === 'pauses') return { ...consumer, rate: drawRate(dice) }
  return weather === 'imports' || weather === 'cancels' || weather === 'filters'
    ? { ...consumer, ordered: false }
    : consumer
}

function relayWeather(dice: Dice, weather: Weather | null): Partial<RelaySettings> {
  if (weather === 'pauses') return { rate: drawRate(dice) }
  return weather === 'filters' ? { only: ['made'] } : {}
}

/** The rate is low enough that events must wait. */
function drawRate(dice: Dice): number | null {
  return dice.chance(0.7) ? 4 + dice.below(16) : null
}

/** Batches have several messages in one transaction, and mostly run them at the same time. */
function withVisits(dice: Dice, consumer: ConsumerSettings): ConsumerSettings {
  return { ...consumer, batch: Math.max(3, consumer.batch), pipelined: dice.chance(0.7) }
}

export function drawPlans(
  dice: Dice,
  settings: Settings,
  rates: Readonly<Record<FaultKind, number>>,
  { operations }: Size = ANY,
  named: (address: Address) => Address = (address) => address,
): Plan[] {
  if (settings.company === 'meets') {
    const make: MakePlan = (of) =>
      drawPlan(dice, settings, rates, { ...of, service: 0 }, named({ scope: SCOPE, key: of.key }))
    return drawMeeting(dice, settings, rates, make)
  }
  if (settings.company === 'batches') {
    return drawBatch(dice, (of) =>
      drawPlan(dice, settings, rates, { ...of, service: 0 }, named({ scope: SCOPE, key: of.key })),
    )
  }
  const few = settings.zombies ? 1 : (settings.relay === null ? 1 : 2) + dice.below(3)
  const count = operations ?? (settings.scopes ? Math.max(2, few) : few)
  const first = settings.scopes ? 2 * dice.below(2) : 0
  const plans: Plan[] = []
  for (let n = 0; n < count; n++) {
    const mode = settings.zombies || settings.weather === 'refusals' ? 'leased' : drawMode(dice)
    const key = `key-${n}`
    const address = named(settings.scopes ? crossingAddress(first + n) : { scope: SCOPE, key })
    plans.push(drawPlan(dice, settings, rates, { key, mode, service: 0, instance: 0 }, address))
  }
  if (settings.company !== 'services') return plans
  // The clients of the other service send the same addresses.
  const twins = plans.map(({ address }, n) => {
    const of = { key: `twin-${n}`, mode: drawMode(dice), service: 1, instance: 0 } as const
    return drawPlan(dice, settings, rates, of, address)
  })
  return [...plans, ...twins]
}

export type MakePlan = (of: Pick<Plan, 'key' | 'mode' | 'instance'>) => Plan

function drawMode(dice: Dice): Mode {
  const roll = dice.next()
  if (roll < 0.45) return 'atomic'
  if (roll < 0.8) return 'leased'
  return roll < 0.92 ? 'batched' : 'joined'
}

function drawPlan(
  dice: Dice,
  settings: Settings,
  rates: Readonly<Record<FaultKind, number>>,
  { key, mode, service, instance }: Pick<Plan, 'key' | 'mode' | 'service' | 'instance'>,
  address: Address,
): Plan {
  const { id } = identity({ namespace: NAMESPACES[service][instance], ...address })
  const leased = mode === 'leased'
  const refuses = settings.weather === 'refusals'
  const count = leased ? dice.below(3) + (settings.zombies || refuses ? 1 : 0) : 0
  const steps = Array.from({ length: count }, (_, n) => ({
    name: `call-${n + 1}`,
    keyed: dice.chance(0.6),
    reconcile: dice.chance(0.5),
    failures: 0,
    slowMs: 0,
    ...(refuses ? { undo: dice.chance(0.8) } : {}),
  }))
  return {
    key,
    address,
    id,
    mode,
    sleepMs: dice.chance(0.5) ? dice.below(25) : 0,
    failures: dice.chance(0.2) ? 1 : 0,
    final: dice.chance(refuses ? 0.7 : 0.12),
    oversize: rates.oversizeAnswer > 0 && dice.chance(0.03),
    poison: mode === 'batched' && dice.chance(0.15),
    steps,
    stepTx: leased && dice.chance(0.4),
    parallel: false,
    family: settings.company === 'meets' ? MEETING : key,
    service,
    instance,
    nestedCalls: [],
    rollbacks: 0,
    trouble: NO_TROUBLE,
    locks: [],
    waitMs: dice.chance(0.3) ? 50 + dice.below(Math.floor(settings.deadlineMs)) : 0,
    recover: leased && dice.chance(0.3),
    events:
      settings.relay === null || instance === 1
        ? NOTHING
        : drawEvents(dice, { ...settings, onFailure: settings.relay.onFailure }),
  }
}
