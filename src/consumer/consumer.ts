import { runRedrives, workOnRedrive } from './redriver.ts'
import { milliseconds, type Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import { findHorizon } from './inbox/horizon.ts'
import { lifeOf } from '../source/log-life.ts'
import { PositionTracker } from './inbox/positions.ts'
import { BROKER_WITHIN_MS, CONSUMER_BACKOFF_MS_MAX, INBOX_MS_MAX } from '../limits.ts'
import { advise } from '../observe/signal.ts'
import { inTime } from '../platform/in-time.ts'
import type { PulledSource } from '../source/source.ts'
import { Broker } from './broker.ts'
import { ConsumerLoop } from './loop.ts'
import { checkConsumer, type ConsumerSettings } from './options.ts'
import { endedInTime, stopMs, type ConsumerParts } from './parts.ts'
import { Pausing } from './pausing.ts'
import { createPushedConsumer } from './push.ts'
import { BatchSize, prefetchOf } from './size.ts'
import type { Consumer, ConsumerOptions } from './types.ts'
import { required } from '../store/lacking.ts'
import type { SomeInbox } from '../store/inbox.ts'
import type { Core, StoppableWork } from '../operation/core.ts'
import type { StopOptions } from '../outbox/relay.ts'
import { tellUnhandled } from './unknown-types.ts'

export function createConsumer<Tx>(
  core: Core<Tx>,
  name: string,
  options: ConsumerOptions<unknown, Duration | undefined>,
  on: unknown,
): Consumer {
  const settings = checkConsumer(core.settings, name, options, on)
  const inbox = inboxOf(core, settings)
  const { from } = settings
  const pausing = new Pausing(name, core.settings.observe)
  const size = new BatchSize(settings, core.store.locks)
  const parts: ConsumerParts<Tx> = { core, inbox, settings, pausing, size, tracker: null }
  let told = false
  const prepared = async (): Promise<void> => {
    await prepare(core, settings)
    if (!told) tellUnhandled(settings, core.settings.observe)
    told = true
  }
  const consumer =
    from.kind === 'pulled' ? new PulledConsumer<Tx>(parts, from, prepared) : createPushedConsumer<Tx>(parts, prepared)
  core.workers.add(consumer)
  return consumer
}

/** An inbox with rows of its own needs transactions to write them in. An inbox without such rows needs a lease. */
function inboxOf<Tx>({ store, transactions, namespace }: Core<Tx>, { leaseMs }: ConsumerSettings): SomeInbox<Tx> {
  const { inbox } = namespace
  if (transactions) return required(store, inbox, 'consumer')
  const leased = required(store, inbox?.take ? null : inbox, 'consumer')
  return required(store, leaseMs === null ? null : leased, 'atomicConsumer')
}

/** Registers the consumer, and refuses a `rememberFor` that is too short. */
async function prepare<Tx>(core: Core<Tx>, settings: ConsumerSettings): Promise<void> {
  const { name, inboxForMs, rememberForMs, lettersForMs, from, attempts, retryForMs, horizon, delivery } = settings
  if (delivery === 'once') {
    const limits = { option: 'redeliversFor', min: 0, max: INBOX_MS_MAX }
    const redeliversForMs = from.redeliversFor === 'forever' ? Infinity : milliseconds(from.redeliversFor, 0, limits)
    const retriesForMs = Math.max(attempts * CONSUMER_BACKOFF_MS_MAX, retryForMs)
    const finding = findHorizon({ source: from.name, redeliversForMs, retriesForMs, rememberForMs })
    if (finding) {
      const error = onceError('ONCE_HORIZON_SHORT', { detail: finding.line })
      if (finding.kind === 'short' && horizon === 'refuse') throw error
      advise(core.settings.observe, 'consumer', `${name}: ${error.message}`)
    }
  }
  await core.store.check?.()
  await core.store.locks?.open()
  await core.namespace.inbox?.open({ consumer: name, inboxForMs, rememberForMs, lettersForMs })
}

interface Running<Tx> {
  readonly loop: ConsumerLoop<Tx>
  readonly stop: AbortController
  /** True if this run only drains. */
  readonly once: boolean
  stopped: boolean
  readonly ended: Promise<void>
}

class PulledConsumer<Tx> implements Consumer, StoppableWork {
  readonly kind = 'consumer'
  readonly isFed = false
  readonly name: string
  readonly #parts: ConsumerParts<Tx>
  readonly #source: PulledSource<unknown>
  readonly #prepare: () => Promise<void>
  #running: Promise<Running<Tx>> | undefined
  #loop: ConsumerLoop<Tx> | undefined

  constructor(parts: ConsumerParts<Tx>, source: PulledSource<unknown>, prepare: () => Promise<void>) {
    this.name = parts.settings.name
    this.#parts = parts
    this.#source = source
    this.#prepare = prepare
  }

  async start(): Promise<this> {
    while (this.#running) {
      const running = await this.#running.catch(() => undefined)
      if (running && !running.once && !running.stop.signal.aborted) return this
      // A run that is stopping or draining ends before a new one starts.
      await running?.ended.catch(() => {})
    }
    await this.#run(false)
    return this
  }

  async stop(options?: StopOptions): Promise<void> {
    const { core, settings } = this.#parts
    const withinMs = stopMs(options, settings)
    const ended = (async () => {
      const running = await this.#running?.catch(() => undefined)
      if (!running) return
      running.stopped = true
      running.loop.endsBy = core.clock.now() + withinMs
      running.stop.abort()
      await running.ended.catch(() => {})
    })()
    if (await endedInTime(this.#parts, ended, withinMs)) return
    const error = new Error(`consumer '${this.name}' did not end within ${withinMs} ms`)
    core.settings.observe({ kind: 'troubled', task: 'consumer', error })
  }

  get underWay(): number {
    return this.#loop?.underWay ?? 0
  }

  /** Handles the waiting messages. If the consumer is running, waits for a while until it is idle. */
  async drain(): Promise<number> {
    while (this.#running) {
      const running = await this.#running.catch(() => undefined)
      if (running && !running.once) {
        const { loop, ended } = running
        const before = loop.handled
        await Promise.race([loop.drains.idle(), ended])
        return loop.handled - before
      }
      // Another drain may have read before the latest message came, so this one reads after it.
      await running?.ended.catch(() => {})
      if (running?.stopped) return 0
    }
    const { loop, ended } = await this.#run(true)
    await ended
    return loop.handled
  }

  get paused(): boolean {
    return this.#parts.pausing.paused
  }

  pause(): void {
    this.#parts.pausing.pause()
  }

  resume(): void {
    this.#parts.pausing.resume()
    void this.#running?.then(({ loop }) => loop.resume()).catch(() => {})
  }

  wake(): void {
    // The commit wakes the source, not the consumer.
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  #run(once: boolean): Promise<Running<Tx>> {
    const running = this.#begin(once)
    this.#running = running
    // A run that cannot begin may fail at once. Nobody may wait for it again.
    running.catch(() => (this.#running = undefined))
    return running
  }

  async #begin(once: boolean): Promise<Running<Tx>> {
    const { core, settings, inbox } = this.#parts
    const { observe } = core.settings
    const stop = new AbortController()
    if (core.closing) throw onceError('ONCE_CLOSED')
    await this.#prepare()
    const source = this.#source
    // Messages that a former run left unsettled come again, so its state is dropped.
    const tracker = source.features.positions ? new PositionTracker(() => core.clock.now()) : null
    const opening = source.open({
      consumer: settings.name,
      signal: stop.signal,
      prefetch: prefetchOf(settings),
      positions: {
        read: async (partitions) => {
          const wanted = new Set(partitions)
          const all = await inbox.positions({ consumer: settings.name, source: source.name })
          const known = all.filter(({ partition }) => wanted.has(partition))
          tracker?.began(known)
          return new Map(known.map(({ partition, next }) => [partition, next]))
        },
        lifeOf: (log) => lifeOf(inbox, { consumer: settings.name, source: source.name }, log),
      },
      warn: (error) => observe({ kind: 'troubled', task: 'consumer', error }),
      advise: (advice) => advise(observe, 'consumer', `${settings.name}: ${advice}`),
    })
    const late = (): Error => {
      stop.abort()
      void opening.then((subscription) => subscription.close()).catch(() => {})
      return new Error(`${source.name}: the source did not open within ${BROKER_WITHIN_MS} ms`)
    }
    const subscription = await inTime(opening, BROKER_WITHIN_MS, late, core.clock)
    const broker = new Broker({ source, subscription, consumer: settings.name, observe, clock: core.clock })
    const loop = new ConsumerLoop<Tx>({ ...this.#parts, tracker }, source, broker, stop.signal)
    this.#loop = loop
    const ended = this.#work(loop, broker, stop, once)
    ended.catch((error: unknown) => {
      if (!once) observe({ kind: 'troubled', task: 'consumer', error })
    })
    return { loop, stop, once, stopped: false, ended }
  }

  async #work(loop: ConsumerLoop<Tx>, broker: Broker, stop: AbortController, once: boolean): Promise<void> {
    const redrives = once ? undefined : runRedrives(this.#parts, stop.signal)
    try {
      await loop.run(once)
      if (once && !this.paused) loop.handled += await workOnRedrive(this.#parts, stop.signal)
    } finally {
      stop.abort()
      await endedInTime(this.#parts, redrives)
      if (!(await endedInTime(this.#parts, broker.close()))) {
        const error = new Error(
          `${this.#source.name}: the source did not close in time when consumer '${this.name}' stopped`,
        )
        this.#parts.core.settings.observe({ kind: 'troubled', task: 'consumer', error })
      }
      this.#running = undefined
      this.#loop = undefined
    }
  }
}
