import type { decide } from '../../lifecycle/decide.ts'
import type { Clock } from '../../platform/clock.ts'
import type { EnclosingContext } from '../../operation/enclosing.ts'
import { createOnce } from '../../once/once.ts'
import type { Signal } from '../../observe/signal.ts'
import type { Relay } from '../../outbox/relay.ts'
import type { OnceInstance } from '../../once/once.ts'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import type { Consumer } from '../../consumer/types.ts'
import type { Sink } from '../../sink/sink.ts'
import type { PulledSource } from '../../source/source.ts'
import type { CacheServer } from '../../tier/cache-server.ts'
import { tiered } from '../../tier/tiered.ts'
import type { SqlStore } from '../../store/store.ts'
import type { Address } from './address.ts'
import type { SimCache } from './cache.ts'
import { Dice } from './dice.ts'
import { batchedOperations } from './handlers.ts'
import type { BatchedCall } from './handlers.ts'
import { observed } from './observed.ts'
import { consumerOf } from './consumers.ts'
import { EVENTS, ORDERED_EVENTS } from './outbox-plan.ts'
import type { SimEvents } from './outbox-plan.ts'
import { NAMESPACES } from './service.ts'
import type { Service } from './service.ts'
import type { SimHandles } from './queue.ts'
import type { Owner } from './scheduler.ts'
import { inContext, noContext, sharedContext } from './shared-context.ts'
import { Wire } from './wire.ts'
import type { World } from './world.ts'

/** The longest time until a dead process is replaced. */
export const RESTART_MS_MAX = 200

/** The deliberate defects of a process: none, or those of one mutant. */
export interface Flaw {
  readonly decide: typeof decide
  readonly statements: MemoryStoreStatements
  wrap(store: MemoryStore, process: SimProcess): SqlStore<MemoryTx>
  sink(sink: Sink, process: SimProcess): Sink
  cache(server: CacheServer, cache: SimCache, process: SimProcess): CacheServer
  /** The address that the process uses in place of the given one. */
  named(address: Address): Address
  /** Whether a signal reaches the observer. */
  hears(signal: Signal): boolean
  source(source: PulledSource<SimHandles>, process: SimProcess): PulledSource<SimHandles>
}

type MemoryStoreStatements = NonNullable<NonNullable<Parameters<typeof memoryStore>[0]>['statements']>

/** One process of the service: the real `once` code with its own clock, pool and memory. A process can die. */
export class SimProcess implements Owner {
  readonly name: string
  readonly service: Service
  readonly store: MemoryStore
  readonly once: OnceInstance<MemoryTx, SimEvents>
  /** The main instance. In worlds where operations meet, a second instance uses the same store. */
  readonly instances: readonly [OnceInstance<MemoryTx, SimEvents>, OnceInstance<MemoryTx, SimEvents>]
  readonly batched: readonly [BatchedCall, BatchedCall]
  readonly wire: Wire
  readonly relay: Relay | null
  readonly consumers: readonly Consumer[]
  alive = true
  paused = false
  /** The process runs the previous version, which does not know every event type. */
  readonly isOld: boolean
  readonly world: World
  /** Instances that share a context in production share one here too. */
  private readonly contexts = new Map<EnclosingContext, EnclosingContext>()
  private readonly rate: number
  private offset: number

  constructor(world: World, name: string, service: Service) {
    const { settings, dice, flaw } = world
    this.world = world
    this.name = name
    this.service = service
    this.isOld = settings.weather === 'versions' && world.chaos && world.processes.length % 2 === 0
    this.rate = world.hit('clockSkew', name) ? dice.between(0.5, 2) : 1
    this.offset = dice.next() * 1e6
    this.wire = new Wire(world, this)
    const clock = this.clock()
    this.store = memoryStore({
      database: world.database,
      step: this.wire.step,
      statements: observed(flaw.statements, (id) => world.note({ kind: 'blind', key: world.keyOf(id) })),
      pool: {
        size: settings.poolSize,
        waitMs: settings.deadlineMs,
        clock,
        onWait: () => world.happened('poolExhausted', name),
      },
    })
    const wrapped = flaw.wrap(this.store, this)
    const { cache } = world
    const shared = cache === null ? wrapped : tiered(wrapped, { cache: flaw.cache(cache.serverFor(this), cache, this) })
    this.once = this.instance(NAMESPACES[service][0], shared, clock)
    const beside = settings.company === 'meets' ? this.instance(NAMESPACES[service][1], shared, clock) : this.once
    this.instances = [this.once, beside]
    const batched = batchedOperations(world, this, 0)
    this.batched = [batched, settings.company === 'meets' ? batchedOperations(world, this, 1) : batched]
    this.relay = this.relays()
    const { consumer } = settings
    this.consumers = consumer === null ? [] : settings.readers.map((of) => consumerOf(world, this, consumer, of))
    world.note({ kind: 'process', process: name, what: 'born' })
  }

  /** Starts a relay or a consumer, and retries until the start succeeds. */
  async start(worker: Relay | Consumer): Promise<void> {
    while (!this.world.resting) {
      try {
        await worker.start()
        return
      } catch {
        await this.sleep(20 + 80 * this.world.dice.next())
      }
    }
  }

  workers(): (Relay | Consumer)[] {
    return [...(this.relay === null ? [] : [this.relay]), ...this.consumers]
  }

  /** The time of the process's own clock. Reading it here does not advance the time. */
  get time(): number {
    return this.world.scheduler.time * this.rate + this.offset
  }

  sleep(ms: number): Promise<void> {
    return this.world.scheduler.sleep(this, ms / this.rate)
  }

  /** Gives the handler a scheduler step of its own, at which the process may also die. */
  turn(label: string): Promise<void> {
    if (this.world.hit('dieBefore', label)) this.die()
    else if (this.world.hit('pausePastLease', label)) this.pause()
    return this.world.scheduler.turn(this)
  }

  die(): void {
    if (!this.alive) return
    const { world } = this
    this.alive = false
    world.note({ kind: 'process', process: this.name, what: 'died' })
    world.crashes += 1
    world.scheduler.forget(this)
    // The server notices the lost connections after a while. A lost host goes unnoticed until the deadline.
    for (const connection of this.wire.connections) {
      world.scheduler.after(world.server, world.dice.between(0, 40), () => connection.hangUp())
    }
    world.scheduler.after(world.owner, world.dice.between(5, RESTART_MS_MAX), () => world.restart(this))
  }

  /** Pauses the process, often past its lease and its deadline. Afterwards the process continues without noticing. */
  pause(): void {
    if (this.paused || !this.alive) return
    const { world } = this
    this.paused = true
    world.note({ kind: 'process', process: this.name, what: 'paused' })
    const { leaseMs, deadlineMs, relay } = world.settings
    const ms = world.dice.between(0.5, 3) * Math.max(leaseMs, deadlineMs, relay?.leaseMs ?? 0)
    world.scheduler.after(world.owner, ms, () => this.resume())
  }

  resume(): void {
    if (!this.paused || !this.alive) return
    this.paused = false
    this.world.note({ kind: 'process', process: this.name, what: 'resumed' })
  }

  jump(ms: number): void {
    this.offset += ms
  }

  private instance(namespace: string, store: SqlStore<MemoryTx>, clock: Clock): OnceInstance<MemoryTx, SimEvents> {
    const { settings, dice, flaw } = this.world
    const once = createOnce(
      {
        namespace,
        store,
        events: settings.consumer?.ordered ? ORDERED_EVENTS : EVENTS,
        observe: (signal) => this.observe(signal),
        replayFor: `${settings.replayForMs}ms`,
        goneFor: `${settings.goneForMs}ms`,
        deadline: `${settings.deadlineMs}ms`,
        endsWithin: `${settings.endsWithinMs}ms`,
        expired: settings.expired,
        guard: 'off',
        sweep: false,
      },
      { clock, random: new Dice(dice.below(2 ** 31)), decide: flaw.decide },
    )
    const { enclosing } = once.core
    const cheap = this.contexts.get(enclosing) ?? (this.world.nests ? sharedContext() : noContext())
    this.contexts.set(enclosing, cheap)
    Object.assign(once.core, { enclosing: cheap })
    // The memory of a process would hide what the cache answers.
    if (this.world.cache !== null) once.core.cache.set = () => undefined
    void once.core.shared?.get('', { at: 0 })
    return once
  }

  private relays(): Relay | null {
    const { relay } = this.world.settings
    if (relay === null) return null
    const { attempts, onFailure, leaseMs, rate, only } = relay
    const to = this.world.flaw.sink(this.world.brokers[this.service].sinkOf(this, relay), this)
    const limits = { ...(rate === null ? {} : { rate }), ...(only === null ? {} : { only }) }
    return this.once.relay({ to, attempts, onFailure, lease: `${leaseMs}ms`, ...limits })
  }

  private observe(signal: Signal): void {
    if (!this.world.flaw.hears(signal)) return
    if (signal.kind === 'sent') this.world.note({ kind: 'told', signal: 'sent', count: signal.events })
    if (signal.kind === 'consumed') this.world.note({ kind: 'told', signal: 'applied', count: signal.applied })
    if (signal.kind === 'deadLetter') this.world.note({ kind: 'told', signal: 'letters', count: 1 })
    if (signal.kind !== 'parked') return
    this.world.note({ kind: 'parked', process: this.name, event: this.world.outbox.nameOf(signal.seq) })
  }

  private clock(): Clock {
    const { scheduler } = this.world
    return {
      now: () => scheduler.look() * this.rate + this.offset,
      after: (ms, callback) => scheduler.timer(this, ms / this.rate, inContext(callback)),
    }
  }
}
