import { MemoryDatabase } from '../../store/memory/database/database.ts'
import type { RecordRow } from '../../store/memory/database/rows.ts'
import { partsOf } from '../../store/namespaced/names.ts'
import { Broker } from './broker.ts'
import { SimCache } from './cache.ts'
import { Canceller } from './canceller.ts'
import { Clients } from './clients.ts'
import { Dice } from './dice.ts'
import { CacheEraser } from './cache-eraser.ts'
import { Eraser } from './eraser.ts'
import { Executions } from './executions.ts'
import { drawRates, FAULT_KINDS } from './fault.ts'
import type { FaultKind } from './fault.ts'
import { Ledger } from './ledger.ts'
import { ACCOUNTS } from './meeting.ts'
import { Mischief } from './mischief.ts'
import { SimOutbox } from './outbox.ts'
import { stepsInPeace } from './patience.ts'
import { ANY, drawPlans, drawSettings } from './plan.ts'
import type { Plan, Settings, Size } from './plan.ts'
import { SimProcess } from './process.ts'
import type { Flaw } from './process.ts'
import { Pauser } from './pauser.ts'
import { Provider } from './provider.ts'
import { Neighbour } from './neighbour.ts'
import { Operator } from './operator.ts'
import { Queues } from './queue.ts'
import { Releaser } from './releaser.ts'
import { Resender } from './resender.ts'
import { tagOf } from './readers.ts'
import { SERVICES } from './service.ts'
import type { Service } from './service.ts'
import { endContexts } from './shared-context.ts'
import { Scheduler } from './scheduler.ts'
import type { Owner } from './scheduler.ts'
import type { TraceEvent } from './trace.ts'
import { TROUBLED_TABLES } from './trouble.ts'

const EPOCH = Date.UTC(2030, 0, 1, 22)
/** The steps in which everything must stop at the end. Only deadlines are left to wait for. */
const REST_STEPS = 5_000
const LATE_ROUNDS = 3

type Unstamped = TraceEvent extends infer E ? (E extends TraceEvent ? Omit<E, 't' | 'now'> : never) : never

/** Long enough that an entry outlives a removal which the cache does not confirm. */
const LONG_MS = 30_000

/** The probability that a lock briefly outlives its transaction. */
const LOCK_LINGERS = 0.05
const LOCK_LINGERS_MS = 2

/** One seed: several processes on one database, clients with keys, a provider, and every fault. */
export class World {
  readonly seed: number
  readonly dice: Dice
  readonly scheduler: Scheduler
  readonly settings: Settings
  readonly rates: Readonly<Record<FaultKind, number>>
  readonly faults: Record<FaultKind, number>
  readonly flaw: Flaw
  readonly database: MemoryDatabase
  readonly executions: Executions
  readonly provider: Provider
  readonly clients: Clients
  /** One per service. */
  readonly brokers: readonly [Broker, Broker]
  readonly queues: readonly [Queues, Queues]
  readonly operator: Operator
  readonly releaser: Releaser
  readonly resender: Resender
  readonly canceller: Canceller
  readonly eraser: Eraser
  readonly pauser: Pauser
  /** The cache that the processes share, or null. */
  readonly cache: SimCache | null
  readonly cacheEraser: CacheEraser
  readonly outbox: SimOutbox
  readonly plans: readonly Plan[]
  /**
   * Whether some operation runs inside another, or the inbox row of a leased consumer is written inside its last
   * transaction.
   */
  readonly nests: boolean
  readonly trace: TraceEvent[] = []
  readonly processes: SimProcess[] = []
  /** The owners of tasks of the database server and of the outside world. They never die. */
  readonly server: Owner = { name: 'server', alive: true, paused: false }
  readonly owner: Owner = { name: 'world', alive: true, paused: false }
  chaos = true
  /** Everything is done: relays stop and are not restarted. */
  resting = false
  outage = false
  crashes = 0
  /** The difference between the database's clock and virtual time. */
  databaseOffset = 0
  private readonly tries = new Map<string, number>()
  private readonly byKey = new Map<string, Plan>()
  private readonly keys = new Map<string, string>()
  private ticks = 0
  private born = 0
  private inners = 0

  constructor(seed: number, flaw: Flaw, size: Size = ANY) {
    this.seed = seed
    this.flaw = flaw
    this.scheduler = new Scheduler(seed)
    this.dice = this.scheduler.dice
    this.cache = SimCache.drawn(this, size.tier)
    const drawn = drawSettings(this.dice, size)
    this.settings = this.cache?.isLong ? { ...drawn, replayForMs: LONG_MS } : drawn
    this.rates = drawRates(this.dice, this.settings.zombies)
    this.faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<FaultKind, number>
    this.plans = drawPlans(this.dice, this.settings, this.rates, size, (address) => flaw.named(address))
    this.nests = this.settings.readerLeaseMs !== null || this.settings.company === 'meets'
    const clock = {
      // The ticks ensure that no microsecond occurs twice.
      now: () => EPOCH + this.scheduler.time + this.databaseOffset + ++this.ticks / 1000,
      after: (ms: number, callback: () => void) => this.scheduler.after(this.server, ms, callback),
    }
    const locks = new Dice(seed ^ 0x10c5)
    const lingers = (): number => (locks.next() < LOCK_LINGERS ? locks.next() * LOCK_LINGERS_MS : 0)
    this.database = new MemoryDatabase({ clock, lingers, ...TROUBLED_TABLES })
    this.eraser = new Eraser(this)
    this.outbox = new SimOutbox(this.settings.relay?.only ?? null)
    this.executions = new Executions(this)
    this.provider = new Provider(this)
    this.clients = new Clients(this)
    this.brokers = [new Broker(this, 0), new Broker(this, 1)]
    this.queues = [new Queues(this, 0), new Queues(this, 1)]
    this.operator = new Operator(this)
    this.releaser = new Releaser(this)
    this.resender = new Resender(this)
    this.canceller = new Canceller(this)
    this.cacheEraser = new CacheEraser(this)
    this.pauser = new Pauser(this)
    for (const plan of this.plans) {
      this.byKey.set(plan.key, plan)
      this.keys.set(plan.id, plan.key)
    }
    const { expired, deadlineMs, endsWithinMs } = this.settings
    const waitMs = Math.max(0, ...this.plans.map((plan) => plan.waitMs))
    this.note({ kind: 'policy', expired, deadlineMs, endsWithinMs, waitMs })
    if (this.settings.relay !== null)
      this.note({
        kind: 'relay',
        relay: this.settings.relay,
        consumer: this.settings.consumer,
        readers: this.settings.readers.map(({ name }) => name),
        redrives: this.settings.redrives,
      })
    for (const plan of this.plans) this.note({ kind: 'plan', plan })
  }

  /**
   * Runs the chaos phase, then a phase without faults. In that phase every call must be decided, and everything must
   * come to rest within a bound.
   */
  async run(): Promise<void> {
    const seeding = this.database.begin()
    await this.database.table('poison').insert(JSON.stringify([1]), { id: 1 }, seeding)
    for (const id of ACCOUNTS)
      await this.database.table('accounts').insert(JSON.stringify([id]), { id, sum: 0 }, seeding)
    seeding.commit()
    this.database.observer = new Ledger(this)
    const services = this.settings.company === 'services' ? SERVICES.length : 1
    for (let i = 0; i < this.settings.processes; i++) this.processes.push(this.spawn((i % services) as Service))
    this.clients.start()
    const mischief = new Mischief(this)
    mischief.start()
    this.operator.start()
    this.releaser.start()
    this.resender.start()
    this.canceller.start()
    this.eraser.start()
    this.pauser.start()
    this.cache?.start()
    this.cacheEraser.start()
    if (this.settings.company === 'neighbour') new Neighbour(this).start()
    const bound = stepsInPeace(this.settings, this.plans) * (this.cache === null ? 1 : 3)
    // A retry meets the cache only after an operation has ended, so these worlds are in trouble for longer.
    await this.scheduler.run(() => this.isDone(), this.settings.chaosSteps * (this.cache === null ? 1 : 4))
    this.calm()
    let phase = await this.scheduler.run(() => this.isDone(), bound)
    this.rest()
    let rest = await this.scheduler.run(() => false, REST_STEPS)
    // Work that no caller waits for may still commit after the relays have stopped. So the relays are started once
    // more.
    for (let round = 0; round < LATE_ROUNDS && phase === 'until' && rest === 'idle' && !this.isDone(); round++) {
      this.startAgain()
      phase = await this.scheduler.run(() => this.isDone(), bound)
      this.rest()
      rest = await this.scheduler.run(() => false, REST_STEPS)
    }
    this.note({
      kind: 'end',
      phase: phase === 'until' && rest === 'idle' ? 'idle' : 'bound',
      undecided: this.clients.undecided,
      openTransactions: this.database.open.size,
      advisoryLocks: this.database.advisory.size,
      pending: [...this.outbox.pending],
      unread: [...this.outbox.unread],
      parked: this.parkedLetters(),
      usedConnections: this.processes.reduce((sum, { store }) => sum + store.pool.used.size, 0),
    })
    if (this.nests) endContexts()
  }

  /** Decides at random whether a fault of this kind occurs. Outside the chaos phase none does. */
  hit(kind: FaultKind, at: string): boolean {
    if (!this.chaos || !this.dice.chance(this.rates[kind])) return false
    this.happened(kind, at)
    return true
  }

  happened(kind: FaultKind, at: string): void {
    this.faults[kind] += 1
    this.note({ kind: 'fault', fault: kind, at })
  }

  note(event: Unstamped): void {
    const now = EPOCH + this.scheduler.time + this.databaseOffset + this.ticks / 1000
    this.trace.push({ t: this.scheduler.time, now, ...event })
  }

  notePool({ name, store }: SimProcess): void {
    const { used } = store.pool
    if (used.size > this.settings.poolSize)
      this.note({ kind: 'pool', process: name, used: used.size, size: this.settings.poolSize })
  }

  /** The committed record, which every new transaction would see. */
  record(id: string): RecordRow | null {
    return this.database.records.seen(id, null) ?? null
  }

  /** Counts how often a handler received this event. */
  countTry(event: string): number {
    const times = (this.tries.get(event) ?? 0) + 1
    this.tries.set(event, times)
    return times
  }

  /** Whether every call has its answer, and every event was sent, applied or parked. */
  get isDrained(): boolean {
    const { pending, unread } = this.outbox
    return (
      this.clients.undecided === 0 &&
      pending.size + unread.size === 0 &&
      this.queues.every(({ size }) => size === 0) &&
      !this.releaser.hasOrphans &&
      !this.resender.hasWaiting
    )
  }

  /** Numbers the calls that handlers make of other operations. */
  nextInner(): number {
    return ++this.inners
  }

  planOf(key: string): Plan {
    return this.byKey.get(key)!
  }

  keyOf(id: string): string {
    return this.keys.get(id) ?? id
  }

  restart(dead: SimProcess): void {
    const index = this.processes.indexOf(dead)
    if (index >= 0) this.processes[index] = this.spawn(dead.service)
  }

  /** A random process of this service. */
  anyOf(service: Service): SimProcess {
    return this.dice.pick(this.processes.filter((process) => process.service === service))
  }

  private spawn(service: Service): SimProcess {
    const process = new SimProcess(this, `p${++this.born}`, service)
    this.employ(process)
    return process
  }

  private calm(): void {
    this.chaos = false
    this.outage = false
    for (const broker of this.brokers) broker.down = false
    for (const process of this.processes) process.resume()
    this.pauser.resumeAll()
    // The deployment is complete: every process that starts from now on runs the new version.
    for (const process of this.processes) if (process.isOld) process.die()
  }

  private isDone(): boolean {
    if (!this.isDrained || !this.cacheEraser.isDone) return false
    const late = [this.operator, this.releaser, this.resender, this.canceller, this.eraser].filter((of) => !of.isDone)
    // A late commit may have brought work to one that had finished.
    for (const attendant of late) attendant.workAgain()
    return late.length === 0
  }

  private parkedLetters(): string[] {
    const letters = this.database.letters.rows(null).map(([, row]) => row)
    return letters
      .filter(({ state }) => state === 'parked')
      .map(({ consumer, message }) => tagOf(partsOf(consumer).name, this.outbox.nameOfId(message)))
  }

  private startAgain(): void {
    this.resting = false
    for (const process of this.processes.filter(({ alive }) => alive)) this.employ(process)
  }

  private employ(process: SimProcess): void {
    for (const worker of process.workers()) this.scheduler.post(process, () => void process.start(worker))
  }

  /** Relays poll for ever, so they are told to stop, as in a service that shuts down. */
  private rest(): void {
    this.resting = true
    for (const process of this.processes) {
      for (const worker of process.workers()) this.scheduler.post(process, () => void worker.stop())
    }
  }
}
