import { milliseconds, type Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import {
  BROKER_WITHIN_MS,
  RELAY_ATTEMPTS_DEFAULT,
  RELAY_ATTEMPTS_MAX,
  RELAY_LEASE_MS_DEFAULT,
  RELAY_LEASE_MS_MAX,
  RELAY_LEASE_MS_MIN,
  RELAY_STOP_MS_DEFAULT,
  RELAY_STOP_MS_MAX,
  RELAY_STOP_WRITE_MS,
  SINK_NAME_LENGTH_MAX,
} from '../limits.ts'
import { invalid, refuseUnknown, wholeNumber } from '../options.ts'
import { advise } from '../observe/signal.ts'
import { sleep } from '../platform/clock.ts'
import { inTime } from '../platform/in-time.ts'
import { checkRate } from '../platform/rate-limit.ts'
import { isStorable } from '../platform/storable.ts'
import type { Sink } from '../sink/sink.ts'
import { isName } from '../store/namespaced/names.ts'
import { WakeSignal } from './wake-signal.ts'
import { Listener } from './listener.ts'
import type { LoopState } from './loop-state.ts'
import { isTypePatterns, matchesAny } from './type-patterns.ts'
import { RelayLoop } from './relay-loop.ts'
import type { OnFailure, RelayParts } from './relay-parts.ts'

/** A background task that runs until you stop it. */
export interface Runner extends AsyncDisposable {
  start(): Promise<this>
  /** Starts nothing new, waits for the work under way, and hands the rest over at once. */
  stop(options?: StopOptions): Promise<void>
  /** Does the waiting work, and returns how many items it handled. For tests, cron and serverless. */
  drain(): Promise<number>
}

/** @deprecated Use `Runner`. The next minor version removes `Worker`. */
export type Worker = Runner

export interface StopOptions {
  /** `stop` ends within this time, even if work is still under way. Default '10s' */
  within?: Duration
}

/** A runner that can be paused. The signals `paused` and `resumed` report each change. */
export interface PausableRunner extends Runner {
  /** Starts nothing new until `resume`, and keeps its shards or partitions. */
  pause(): void
  resume(): void
  readonly paused: boolean
}

export interface Relay extends PausableRunner {}

export interface RelayOptions {
  to: Sink
  /** How often an event may fail before `onFailure` decides. Default 250, which takes about an hour */
  attempts?: number
  /**
   * What to do with an event that failed for the last time. 'park' (default): the event is parked, and later events of
   * its aggregate are parked behind it. 'block': its aggregate waits until the event is sent. 'skip': the event is
   * skipped, and later events are sent without it, out of order.
   */
  onFailure?: OnFailure
  /** How long other relays wait before they take the shards of a relay that died. Default '30s' */
  lease?: Duration
  /**
   * Sends only events of these types (`*` is any text), such as `['charge.*']`. The relay ignores the others, and
   * the outbox does not keep them for this destination. All relays of a destination need the same filter.
   */
  only?: readonly string[]
  /** Ignores events of these types. */
  except?: readonly string[]
  /** The most events per second of this relay in this process. Default: no limit */
  rate?: number
}

const OPTIONS = new Set(['to', 'attempts', 'onFailure', 'lease', 'only', 'except', 'rate'])
const ON_FAILURE: readonly unknown[] = ['park', 'block', 'skip']

export type RelaySurroundings = Pick<
  RelayParts,
  'outbox' | 'clock' | 'random' | 'observe' | 'tracing' | 'source' | 'calls' | 'closed'
>

/** A relay that can be woken when events were committed in this process. */
export interface WakeableRelay extends Relay {
  readonly kind: 'relay'
  /** The name of its sink. */
  readonly name: string
  /** 1: the relay runs. */
  readonly underWay: number
  readonly isFed: false
  /** Its last stop did not wait for a call of the sink. */
  readonly isCutShort?: boolean
  /** `due`: held events may be due, not only new events. */
  wake(options?: { readonly due: boolean }): void
}

export function createRelay(surroundings: RelaySurroundings, options: RelayOptions): WakeableRelay {
  return new SinkRelay(partsOf(surroundings, options))
}

/** The state of one run of the loop. */
interface RelayRun extends LoopState {
  stopping: boolean
  overdue: boolean
  readonly loop: RelayLoop
  readonly begun: Promise<void>
  readonly ended: Promise<void>
}

class SinkRelay implements WakeableRelay {
  readonly kind = 'relay'
  readonly name: string
  readonly isFed = false
  isCutShort = false
  readonly #parts: Omit<RelayParts, 'relay'>
  readonly #wake: WakeSignal
  #running: RelayRun | undefined
  #paused = false
  #waitingForIdle: (() => void)[] = []

  constructor(parts: Omit<RelayParts, 'relay'>) {
    this.#parts = parts
    this.name = parts.sink.name
    this.#wake = new WakeSignal(parts.clock)
  }

  async start(): Promise<this> {
    // Wait for a run that is about to end. Otherwise nothing would run after it.
    while (this.#running?.stopping || this.#running?.once) await this.#running.ended.catch(() => {})
    await (this.#running?.begun ?? this.#begin(false))
    return this
  }

  async stop(options?: StopOptions): Promise<void> {
    const limits = { option: 'within', min: 0, max: RELAY_STOP_MS_MAX }
    const withinMs = milliseconds(options?.within, RELAY_STOP_MS_DEFAULT, limits)
    const running = this.#running
    this.isCutShort = false
    if (!running) return
    running.stopping = true
    this.#wake.signal()
    const { clock, observe, sink } = this.#parts
    // Leave some of the time for recording what was sent.
    const cancel = clock.after(withinMs - Math.min(withinMs / 4, RELAY_STOP_WRITE_MS), () => {
      running.overdue = true
      this.isCutShort = true
      this.#wake.signal()
    })
    const late = new AbortController()
    const inTime = await Promise.race([running.ended.then(() => true), sleep(clock, withinMs, late.signal)])
    cancel()
    late.abort()
    if (inTime) return
    const error = new Error(`${sink.name}: the relay did not end within ${withinMs} ms; its lease lapses by itself`)
    observe({ kind: 'troubled', task: 'relay', error })
  }

  get underWay(): number {
    return this.#running ? 1 : 0
  }

  async drain(): Promise<number> {
    // Another drain may have looked before the latest commit, so this one looks after it.
    for (let other = this.#running; other?.once; other = this.#running) {
      await other.ended.catch(() => {})
      if (other.stopping) return 0
    }
    const running = this.#running
    if (running) {
      const before = running.loop.sent
      const idle = new Promise<void>((resolve) => this.#waitingForIdle.push(resolve))
      running.loop.lookOnce()
      this.#wake.signal()
      await Promise.race([idle, running.ended])
      return running.loop.sent - before
    }
    const { loop, ended } = await this.#begin(true)
    await ended
    return loop.sent
  }

  get paused(): boolean {
    return this.#paused
  }

  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.#parts.observe({ kind: 'paused', task: 'relay', name: this.#parts.sink.name })
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#wake.signal()
    this.#parts.observe({ kind: 'resumed', task: 'relay', name: this.#parts.sink.name })
  }

  wake(options?: { readonly due: boolean }): void {
    if (!this.#running) return
    if (options?.due) this.#running.loop.lookForDue()
    this.#wake.signal()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #begin(once: boolean): Promise<RelayRun> {
    if (this.#parts.closed()) throw onceError('ONCE_CLOSED')
    const paused = (): boolean => this.#paused
    const state = {
      stopping: false,
      overdue: false,
      once,
      get paused() {
        return paused()
      },
      idle: () => {
        for (const resolve of this.#waitingForIdle.splice(0)) resolve()
      },
    }
    // A restarted relay gets a new id, so that nothing of its last run counts.
    const loop = new RelayLoop({ ...this.#parts, relay: this.#parts.random.uuid() }, state, this.#wake)
    let over: (outcome: Promise<void>) => void = () => {}
    const ended = new Promise<void>((resolve) => (over = resolve))
    const begun = this.#open(loop)
    const running: RelayRun = Object.assign(state, { loop, begun, ended })
    this.#running = running
    try {
      await begun
    } catch (error) {
      this.#running = undefined
      over(Promise.resolve())
      throw error
    }
    const listener = once ? undefined : this.#listener()
    void listener?.start()
    const close = (): Promise<void> => this.#close(running, listener)
    const run = loop.run().then(close, (error: unknown) => close().then(() => Promise.reject(error)))
    run.catch(() => {})
    over(run)
    return running
  }

  async #open(loop: RelayLoop): Promise<void> {
    const { sink, observe, clock } = this.#parts
    const late = (): Error => new Error(`${sink.name}: the sink did not open within ${BROKER_WITHIN_MS} ms`)
    const opened = await inTime(Promise.resolve(sink.open?.()), BROKER_WITHIN_MS, late, clock)
    for (const advice of opened ?? []) advise(observe, 'relay', `${sink.name}: ${advice}`)
    await loop.start()
  }

  /** Waits for the sink to close, because it may be opened again only then. It does not wait for a close that hangs. */
  async #close(running: RelayRun, listener: Listener | undefined): Promise<void> {
    const { sink, clock } = this.#parts
    let cancel = (): void => {}
    try {
      await listener?.stop()
      const late = new Promise<void>((resolve) => (cancel = clock.after(RELAY_STOP_MS_DEFAULT, resolve)))
      await Promise.race([sink.close?.(), late])
    } finally {
      cancel()
      // Only after the close, because the next start opens the sink again.
      if (this.#running === running) this.#running = undefined
      for (const resolve of this.#waitingForIdle.splice(0)) resolve()
    }
  }

  #listener(): Listener | undefined {
    const { calls, clock, random, observe } = this.#parts
    if (!calls) return undefined
    const troubled = (error: unknown): void => observe({ kind: 'troubled', task: 'relay', error })
    return new Listener({ calls, clock, random, called: () => this.#wake.signal(), troubled })
  }
}

function partsOf(surroundings: RelaySurroundings, options: RelayOptions): Omit<RelayParts, 'relay'> {
  if (typeof options !== 'object' || options === null) throw invalid('relay() needs { to }')
  refuseUnknown(options, OPTIONS, 'relay()')
  const { to, attempts = RELAY_ATTEMPTS_DEFAULT, onFailure = 'park' } = options
  if (typeof to?.send !== 'function' || typeof to.name !== 'string') throw invalid('relay({ to }) needs a sink')
  if (to.name === '' || to.name.length > SINK_NAME_LENGTH_MAX || !isName(to.name) || !isStorable(to.name)) {
    throw invalid(`the name of a sink has 1 to ${SINK_NAME_LENGTH_MAX} characters, without NUL and U+001F`)
  }
  for (const option of ['batch', 'concurrency'] as const) {
    const value = to[option] ?? 1
    if (!Number.isInteger(value) || value < 1) throw invalid(`${option} of a sink must be a whole number from 1`)
  }
  wholeNumber('attempts', attempts, RELAY_ATTEMPTS_MAX)
  if (!ON_FAILURE.includes(onFailure)) throw invalid(`onFailure must be 'park', 'block' or 'skip'`)
  const limits = { option: 'lease', min: RELAY_LEASE_MS_MIN, max: RELAY_LEASE_MS_MAX }
  const leaseMs = milliseconds(options.lease, RELAY_LEASE_MS_DEFAULT, limits)
  const rate = options.rate === undefined ? null : checkRate(options.rate, 'events')
  return { ...surroundings, sink: to, attempts, onFailure, leaseMs, wants: wantsOf(options), rate }
}

function wantsOf({ only, except }: RelayOptions): (type: string) => boolean {
  for (const [option, patterns] of Object.entries({ only, except })) {
    if (patterns === undefined || (isTypePatterns(patterns) && patterns.length > 0)) continue
    throw invalid(`${option} must be a list of types, such as ['charge.*']`)
  }
  const included = only ? matchesAny(only) : () => true
  const excluded = except ? matchesAny(except) : () => false
  return (type) => included(type) && !excluded(type)
}
