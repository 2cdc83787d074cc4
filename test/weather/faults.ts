import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { RunningServer } from '../../scripts/servers/index.ts'
import type { Dice } from '../../src/testing/sim/dice.ts'
import type { Crew, Member, Role } from './crew.ts'
import type { Database, Dropped } from './database.ts'
import type { Hook, Refusal } from './hook.ts'

const SLOW_MS = [200, 1_500] as const
const REFUSALS: readonly Refusal[] = [503, 429, 500, 'hang']
/** The maximum delay of other events while one event is refused: two seconds more than usual, on a busy machine. */
const OVERDUE_MS = 5_000
const LOCKS_PER_CALL = 1_000
const LOCKS_MAX = 100_000
const LOCK_TABLE_FULL = '53200'
const CLOCK_STEP_MS = 3_600_000

/** The objects that faults act on. */
export interface Surroundings {
  readonly database: Database
  readonly crew: Crew
  readonly hook: Hook
  readonly broker: RunningServer | undefined
  /**
   * Kills the node that leads the stream or queue, and returns a function that restarts it. Undefined if there is one
   * node.
   */
  readonly killLeader: (() => Promise<() => Promise<void>>) | undefined
  /** How long the messages of a dead consumer process stay assigned to it. */
  readonly consumerLeaseMs: number
  readonly relayLeaseMs: number
  /** No other fault occurs at the same time. */
  readonly solo: boolean
  tell(line: string): void
  /** Records the process that the fault hits. */
  on(name: string): void
  /** Records that a process waits although it should not. */
  stuck(line: string): void
  /** The number of events of other aggregates that are older than `ms` and were not sent to the hook. */
  overdue(ms: number, exceptAggregate: string): Promise<number>
  /**
   * Reports the rows that an asynchronous promotion dropped. `knowing`: the relays that still know what they sent
   * before the promotion.
   */
  dropped(what: Dropped, at: { readonly since: Date; readonly knowing: ReadonlySet<string> }): Promise<void>
  /** The database is available again, so publishing must work within seconds. */
  serves(): Promise<void>
}

/** Injects one fault and ends it. Returns whether the fault hit. */
type Fault = (at: Surroundings, dice: Dice, free: Free) => Promise<boolean>

/** Assigns processes to faults, so that each process has one fault at a time. */
export class Free {
  readonly #lent = new Set<string>()
  readonly #returnedAt = new Map<string, number>()

  /** Whether no fault has used this process since then. */
  wasFree({ post: { name } }: Pick<Member, 'post'>, since: Date): boolean {
    return !this.#lent.has(name) && (this.#returnedAt.get(name) ?? 0) < since.getTime()
  }

  /** Runs with a process of one of these roles, or returns false when none is free. */
  async with(
    { crew, on }: Pick<Surroundings, 'crew' | 'on'>,
    dice: Dice,
    roles: readonly Role[],
    work: (member: Member) => Promise<unknown>,
  ): Promise<boolean> {
    const role = dice.pick(roles)
    const found = crew.of(role).filter((one) => one.isReady && !this.#lent.has(one.post.name))
    // At least one process of each role must continue to work.
    const member = found.length > 1 ? dice.pick(found) : undefined
    if (!member) return false
    this.#lent.add(member.post.name)
    on(member.post.name)
    try {
      await work(member)
      return true
    } finally {
      this.#lent.delete(member.post.name)
      this.#returnedAt.set(member.post.name, Date.now())
    }
  }
}

/** Runs these faults one at a time. */
function inTurn(): (fault: Fault) => Fault {
  let last: Promise<unknown> = Promise.resolve()
  return (fault) =>
    (...given) => {
      const turn = last.then(() => fault(...given))
      last = turn.catch(() => {})
      return turn
    }
}

/** Each of these faults takes the whole database down. */
const alone = inTurn()
const aloneAtBroker = inTurn()

const ANYBODY: readonly Role[] = ['relay', 'consumer', 'producer']

export const FAULTS = {
  immediateRestart: alone(async (at) => {
    await at.database.restartAtOnce()
    await at.serves()
    return true
  }),
  synchronousPromotion: alone(async (at) => {
    await at.database.promoteSynchronous()
    return true
  }),
  asynchronousPromotion: alone(async (at, _dice, free) => {
    const since = new Date()
    const relays = at.crew.of('relay')
    const dropped = await at.database.promoteAsynchronous()
    // A relay that was replaced or paused meanwhile may have forgotten what it sent.
    const knowing = relays.filter((relay) => at.crew.of('relay').includes(relay) && free.wasFree(relay, since))
    await at.dropped(dropped, { since, knowing: new Set(knowing.map(({ post }) => post.name)) })
    return dropped.orders.length + dropped.effects.length > 0
  }),
  backendKilled: alone(async (at) => {
    const hit = await at.database.killBackend()
    if (hit) await at.serves()
    return hit
  }),
  fullLockTable: alone((at) => fillLockTable(at.database.primary.url)),
  brokerKilled: aloneAtBroker(async ({ broker }, dice) => {
    if (!broker?.halt || !broker.resume) return false
    await broker.halt('SIGKILL')
    await sleep(dice.between(500, 3_000))
    await broker.resume()
    return true
  }),
  leaderKilled: aloneAtBroker(async ({ killLeader }, dice) => {
    const resume = await killLeader?.()
    if (!resume) return false
    await sleep(dice.between(2_000, 6_000))
    await resume()
    return true
  }),
  async slowSink({ hook }, dice) {
    const before = hook.calls.length
    hook.slow(dice.between(...SLOW_MS))
    await sleep(dice.between(5_000, 8_000))
    hook.slow(0)
    return hook.calls.length > before
  },
  async failingEvent({ hook, solo, stuck, overdue }, dice) {
    const how = dice.pick(REFUSALS)
    hook.refuse(how)
    await sleep(dice.between(8_000, 10_000))
    const { refused } = hook
    if (refused && solo) {
      const others = await overdue(OVERDUE_MS, refused.aggregate)
      if (others > 0) stuck(`${others} events of other aggregates wait while one is refused (${how})`)
    }
    hook.accept()
    return refused !== undefined
  },
  failingHandler: (at, dice, free) =>
    free.with(at, dice, ['consumer'], async (member) => {
      member.tell('fail')
      await sleep(dice.between(3_000, 5_000))
      member.tell('well')
    }),
  blackHole: (at, dice, free) =>
    free.with(at, dice, ANYBODY, async ({ link }) => {
      link.silence()
      await sleep(dice.between(5_000, 12_000))
      link.forget()
    }),
  frozenLink: (at, dice, free) =>
    free.with(at, dice, ANYBODY, async ({ link }) => {
      link.silence()
      await sleep(dice.between(3_000, 12_000))
      link.thaw()
    }),
  stoppedProcess: (at, dice, free) =>
    free.with(at, dice, ['relay', 'consumer'], async (member) => {
      member.hold()
      const leaseMs = member.post.role === 'relay' ? at.relayLeaseMs : at.consumerLeaseMs
      await sleep(leaseMs + dice.between(1_000, 3_000))
      member.release()
    }),
  deploy: (at, dice, free) =>
    free.with(at, dice, ANYBODY, async (member) => {
      const began = performance.now()
      const inTime = await at.crew.replace(member, 'SIGTERM')
      const seconds = ((performance.now() - began) / 1_000).toFixed(1)
      if (!inTime || Number(seconds) > 10) at.tell(`${member.post.name} took ${seconds} s to end (${member.last})`)
    }),
  killedProcess: (at, dice, free) => free.with(at, dice, ANYBODY, (member) => at.crew.replace(member, 'SIGKILL')),
  clockStep: (at, dice, free) =>
    free.with(at, dice, ANYBODY, async (member) => {
      member.tell(`clock ${dice.chance(0.5) ? CLOCK_STEP_MS : -CLOCK_STEP_MS}`)
    }),
} satisfies Record<string, Fault>

export type FaultKind = keyof typeof FAULTS

export function inject(kind: FaultKind, at: Surroundings, dice: Dice, free: Free): Promise<boolean> {
  return FAULTS[kind](at, dice, free)
}

/** A foreign session fills the lock table, keeps the locks for a while and ends. */
async function fillLockTable(url: string): Promise<boolean> {
  const stranger = new pg.Client({ connectionString: url, application_name: 'weather' })
  stranger.on('error', () => {})
  await stranger.connect()
  try {
    for (let first = 0; first < LOCKS_MAX; first += LOCKS_PER_CALL) {
      const text = 'select pg_advisory_lock(53200, g::int4) from generate_series($1::int4, $2::int4) g'
      await stranger.query(text, [first, first + LOCKS_PER_CALL - 1])
    }
    return false
  } catch (error) {
    if ((error as { code?: string }).code !== LOCK_TABLE_FULL) throw error
    await sleep(4_000)
    return true
  } finally {
    await stranger.end().catch(() => {})
  }
}
