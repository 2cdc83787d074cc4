import { milliseconds, type Duration } from '../duration.ts'
import { checkNamespace } from '../key/parse-key.ts'
import {
  ATTRIBUTE_LENGTH_MAX,
  DEADLINE_MS_DEFAULT,
  DEADLINE_MS_MAX,
  DEADLINE_MS_MIN,
  ENDS_WITHIN_MS_DEFAULT,
  ENDS_WITHIN_MS_MAX,
  ENDS_WITHIN_MS_MIN,
  GONE_MS_DEFAULT,
  GONE_MS_MAX,
  REPLAY_MS_DEFAULT,
  REPLAY_MS_MAX,
  REPLAY_MS_MIN,
  RESEND_MS_DEFAULT,
  RESEND_MS_MAX,
  RESEND_MS_MIN,
  WAIT_MS_MAX,
} from '../limits.ts'
import { invalid, oneOf, optionalFunction, refuseUnknown } from '../options.ts'
import type { Observe } from '../observe/signal.ts'
import { shieldedTracing } from '../observe/shielded-tracing.ts'
import type { Tracing } from '../observe/tracing.ts'
import { isStorable } from '../platform/storable.ts'
import type { Events } from '../outbox/event.ts'
import type { Store } from '../store/store.ts'
import { Reach } from './reach.ts'
import type { InFlight, OnceOptions } from './types.ts'

/** Checked options, in milliseconds. */
export interface Settings {
  readonly namespace: string
  readonly events: Events
  readonly replayForMs: number
  /** The longest `replayFor` that operations asked for. */
  readonly reach: Reach
  readonly goneForMs: number
  readonly resendForMs: number
  readonly deadlineMs: number
  readonly endsWithinMs: number
  /** 0: refuse a duplicate at once. */
  readonly waitMs: number
  readonly expired: 'gone' | 'rerun'
  readonly guard: 'off' | 'warn' | 'throw'
  readonly sweep: boolean
  /** Processes notify each other of committed events. */
  readonly listen: boolean
  readonly observe: Observe
  /** null: nobody traces. */
  readonly tracing: Tracing | null
}

const OPTIONS = new Set([
  'namespace',
  'store',
  'events',
  'replayFor',
  'goneFor',
  'resendFor',
  'inFlight',
  'expired',
  'deadline',
  'endsWithin',
  'guard',
  'sweep',
  'listen',
  'observe',
  'tracing',
])

export function checkSettings<Tx, E extends Events>(options: OnceOptions<Tx, E>): Settings {
  if (typeof options !== 'object' || options === null) throw invalid('effectivelyOnce() needs an options object')
  refuseUnknown(options, OPTIONS, 'effectivelyOnce()')
  checkStore(options.store)
  const replayMs = replayForMs(options.replayFor, REPLAY_MS_DEFAULT)
  return {
    namespace: checkNamespace(options.namespace),
    events: checkEvents(options.events),
    replayForMs: replayMs,
    reach: new Reach(replayMs),
    goneForMs: goneForMs(options.goneFor, GONE_MS_DEFAULT),
    resendForMs: milliseconds(options.resendFor, RESEND_MS_DEFAULT, {
      option: 'resendFor',
      min: RESEND_MS_MIN,
      max: RESEND_MS_MAX,
    }),
    deadlineMs: deadlineMs(options.deadline, DEADLINE_MS_DEFAULT),
    endsWithinMs: endsWithinMs(options.endsWithin, ENDS_WITHIN_MS_DEFAULT),
    waitMs: waitMs(options.inFlight, 0),
    expired: oneOf('expired', options.expired, ['gone', 'rerun'], 'gone'),
    guard: oneOf('guard', options.guard, ['off', 'warn', 'throw'], isProduction() ? 'off' : 'warn'),
    listen: oneOf('listen', options.listen, [true, false], false),
    sweep: oneOf('sweep', options.sweep, [true, false], true),
    observe: shielded(optionalFunction('observe', options.observe)),
    tracing: checkTracing(options.tracing),
  }
}

export function replayForMs(value: Duration | undefined, fallback: number): number {
  return milliseconds(value, fallback, { option: 'replayFor', min: REPLAY_MS_MIN, max: REPLAY_MS_MAX })
}

export function goneForMs(value: Duration | undefined, fallback: number): number {
  return milliseconds(value, fallback, { option: 'goneFor', min: 0, max: GONE_MS_MAX })
}

export function endsWithinMs(value: Duration | undefined, fallback: number): number {
  return milliseconds(value, fallback, { option: 'endsWithin', min: ENDS_WITHIN_MS_MIN, max: ENDS_WITHIN_MS_MAX })
}

export function deadlineMs(value: Duration | undefined, fallback: number): number {
  return milliseconds(value, fallback, { option: 'deadline', min: DEADLINE_MS_MIN, max: DEADLINE_MS_MAX })
}

export function waitMs(value: InFlight | undefined, fallback: number): number {
  if (value === undefined) return fallback
  if (value === 'reject') return 0
  if (value?.waitFor === undefined) throw invalid(`inFlight must be 'reject' or { waitFor: '2s' }`)
  return milliseconds(value.waitFor, 0, { option: 'inFlight.waitFor', min: 1, max: WAIT_MS_MAX })
}

/** The options of an operation. */
export const RUN_OPTIONS: ReadonlySet<string> = new Set([
  'scope',
  'key',
  'input',
  'lease',
  'inFlight',
  'expired',
  'deadline',
  'endsWithin',
  'replayFor',
  'goneFor',
  'ignore',
  'label',
  'recover',
])

/**
 * Refuses lease options where the transaction is already open or shared. A lease cannot work there, and ignoring it
 * would be a false promise.
 */
export function refuseLease(operation: object, whose: string): void {
  for (const option of ['lease', 'label', 'recover'] as const) {
    if ((operation as Record<string, unknown>)[option] !== undefined) throw invalid(`${whose} takes no ${option}`)
  }
}

const TRANSACTIONS = ['begin', 'open', 'refuse'] as const

function checkStore(store: unknown): void {
  const candidate = store as Partial<Store<unknown>> | null | undefined
  if (typeof candidate?.read !== 'function' || typeof candidate.leases !== 'object' || !candidate.features) {
    throw invalid('store must be one of the stores, such as pgStore(pool) or sqliteStore({ file })')
  }
  const whole = TRANSACTIONS.every((method) => typeof candidate[method] === 'function')
  if (candidate.features.transactional && !whole) {
    throw invalid(
      `a store with transactions needs ${TRANSACTIONS.join(', ')}; without them features.transactional is false`,
    )
  }
}

function checkEvents(events: Events | undefined): Events {
  if (events === undefined) return {}
  for (const [type, definition] of Object.entries(events)) {
    if (type === '' || type.length > ATTRIBUTE_LENGTH_MAX || !isStorable(type))
      throw invalid('an event type has 1 to 255 characters, no NUL character and no lone surrogate')
    if (typeof definition?.aggregate !== 'function')
      throw invalid(`events['${type.slice(0, 80)}'] must be made with event()`)
  }
  return events
}

function checkTracing(tracing: Tracing | undefined): Tracing | null {
  if (tracing !== undefined && typeof tracing?.start !== 'function') throw invalid('tracing must be made with otel()')
  return tracing ? shieldedTracing(tracing) : null
}

/** An observer cannot change what happened, so an observer that throws or rejects does not fail the operation. */
function shielded(observe: Observe | undefined): Observe {
  if (!observe) return () => {}
  return (signal) => {
    try {
      const told: unknown = observe(signal)
      if (told instanceof Promise) told.catch(() => {})
    } catch {
      // There is nobody to report this to.
    }
  }
}

function isProduction(): boolean {
  return globalThis.process?.env?.['NODE_ENV'] === 'production'
}
