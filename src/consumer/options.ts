import { milliseconds, type Duration } from '../duration.ts'
import type { Mask } from './inbox/letter.ts'
import {
  CONSUMER_ATTEMPTS_DEFAULT,
  CONSUMER_ATTEMPTS_MAX,
  CONSUMER_BATCH_DEFAULT,
  CONSUMER_BATCH_MAX,
  CONSUMER_CONCURRENCY_DEFAULT,
  CONSUMER_CONCURRENCY_MAX,
  CONSUMER_NAME_LENGTH_MAX,
  INBOX_MS_DEFAULT,
  INBOX_MS_MAX,
  LEASE_MS_DEFAULT,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
  LETTERS_MS_DEFAULT,
  REMEMBER_MS_DEFAULT,
} from '../limits.ts'
import { invalid, oneOf, optionalFunction, refuseUnknown, wholeNumber } from '../options.ts'
import { checkRate } from '../platform/rate-limit.ts'
import { isStorable } from '../platform/storable.ts'
import type { Source } from '../source/source.ts'
import { isName } from '../store/namespaced/names.ts'
import type { ConsumerOptions, Delivering } from './types.ts'
import { deadlineMs, type Settings } from '../operation/settings.ts'
import { checkUnknown, type Ignores } from './unknown-types.ts'

/** Checked options, in milliseconds. */
export interface ConsumerSettings {
  readonly name: string
  readonly from: Source<unknown>
  /** null: atomic. */
  readonly leaseMs: number | null
  readonly concurrency: number
  readonly attempts: number
  /** Counted from its first failure. Before this time a failing message is not parked. */
  readonly retryForMs: number
  /** Messages per second; null: without a limit. */
  readonly rate: number | null
  readonly batch: number
  readonly pipelined: boolean
  readonly delivery: Delivering
  readonly onFailure: 'park' | 'block' | 'skip'
  /** What to do with a type without a handler. */
  readonly ignores: Ignores
  readonly key: ((event: unknown) => string) | undefined
  readonly mask: Mask | undefined
  readonly deadlineMs: number
  readonly inboxForMs: number
  readonly rememberForMs: number
  readonly lettersForMs: number
  readonly horizon: 'refuse' | 'warn'
  readonly handlers: ReadonlyMap<string, Handler>
}

/** An atomic or a leased handler. `lease` says which. */
export type Handler = (event: unknown, op: never) => Promise<unknown>

const OPTIONS = new Set([
  'from',
  'lease',
  'concurrency',
  'attempts',
  'retryFor',
  'rate',
  'batch',
  'pipelined',
  'delivery',
  'onFailure',
  'unknown',
  'key',
  'mask',
  'deadline',
  'inboxFor',
  'rememberFor',
  'lettersFor',
  'horizon',
])

export function checkConsumer(
  settings: Settings,
  name: unknown,
  options: ConsumerOptions<unknown, Duration | undefined>,
  on: unknown,
): ConsumerSettings {
  const fits = typeof name === 'string' && name !== '' && name.length <= CONSUMER_NAME_LENGTH_MAX
  if (!fits || !isName(name) || !isStorable(name)) {
    throw invalid(`the name of a consumer has 1 to ${CONSUMER_NAME_LENGTH_MAX} characters, without NUL and U+001F`)
  }
  if (typeof options !== 'object' || options === null) throw invalid(`consumer('${name}') needs { from }`)
  refuseUnknown(options, OPTIONS, 'consumer()')
  const delivery = oneOf<Delivering>('delivery', options.delivery, ['once', 'at-least-once', 'at-most-once'], 'once')
  if (options.lease !== undefined && delivery !== 'once') {
    throw invalid(`a leased consumer needs delivery 'once', because a retry resumes after its steps`)
  }
  const {
    concurrency = CONSUMER_CONCURRENCY_DEFAULT,
    attempts = CONSUMER_ATTEMPTS_DEFAULT,
    batch = CONSUMER_BATCH_DEFAULT,
  } = options
  const from = checkSource(options.from)
  const leased = { option: 'lease', min: LEASE_MS_MIN, max: LEASE_MS_MAX }
  return {
    name,
    from,
    leaseMs: options.lease === undefined ? null : milliseconds(options.lease, LEASE_MS_DEFAULT, leased),
    concurrency: wholeNumber('concurrency', concurrency, CONSUMER_CONCURRENCY_MAX),
    attempts: wholeNumber('attempts', attempts, CONSUMER_ATTEMPTS_MAX),
    retryForMs: retryForMs(options),
    rate: options.rate === undefined ? null : checkRate(options.rate, 'messages'),
    batch: wholeNumber('batch', batch, CONSUMER_BATCH_MAX),
    pipelined: oneOf('pipelined', options.pipelined, [true, false], false),
    delivery,
    onFailure: oneOf('onFailure', options.onFailure, ['park', 'block', 'skip'], 'park'),
    ignores: checkUnknown(options.unknown, from),
    key: optionalFunction('key', options.key) as ConsumerSettings['key'],
    mask: optionalFunction('mask', options.mask),
    deadlineMs: deadlineMs(options.deadline, settings.deadlineMs),
    ...retention(options),
    horizon: oneOf('horizon', options.horizon, ['refuse', 'warn'], 'refuse'),
    handlers: checkHandlers(on),
  }
}

const RETRY_MS_DEFAULT = 3_600_000

/**
 * An outage of a dependency may be longer than ten attempts. But if the user sets `attempts`, only that number counts.
 */
function retryForMs({ attempts, retryFor }: ConsumerOptions<unknown, Duration | undefined>): number {
  const limits = { option: 'retryFor', min: 0, max: INBOX_MS_MAX }
  return milliseconds(retryFor, attempts === undefined ? RETRY_MS_DEFAULT : 0, limits)
}

function retention(
  options: ConsumerOptions<unknown, Duration | undefined>,
): Pick<ConsumerSettings, 'inboxForMs' | 'rememberForMs' | 'lettersForMs'> {
  const limits = (option: string): { option: string; min: number; max: number } => ({
    option,
    min: 0,
    max: INBOX_MS_MAX,
  })
  const inboxForMs = milliseconds(options.inboxFor, INBOX_MS_DEFAULT, limits('inboxFor'))
  return {
    inboxForMs,
    rememberForMs: milliseconds(options.rememberFor, Math.max(REMEMBER_MS_DEFAULT, inboxForMs), limits('rememberFor')),
    lettersForMs: milliseconds(options.lettersFor, LETTERS_MS_DEFAULT, limits('lettersFor')),
  }
}

function checkSource(from: unknown): Source<unknown> {
  const source = from as Partial<Source<unknown>> | null | undefined
  const usable =
    source?.kind === 'pushed' ? typeof source.receive : source?.kind === 'pulled' ? typeof source.open : 'undefined'
  if (usable !== 'function') throw invalid('consumer({ from }) needs a source, such as once.outbox or natsSource(…)')
  if (typeof source?.name !== 'string' || !isStorable(source.name))
    throw invalid('the name of a source must be a string')
  return source as Source<unknown>
}

function checkHandlers(on: unknown): ReadonlyMap<string, Handler> {
  if (typeof on !== 'object' || on === null)
    throw invalid('consumer() needs an object with a handler for each type of event')
  const handlers = new Map(Object.entries(on).filter(([, handler]) => handler !== undefined))
  if (handlers.size === 0) throw invalid('consumer() needs at least one handler')
  for (const [type, handler] of handlers) {
    if (typeof handler !== 'function') throw invalid(`the handler of '${type.slice(0, 80)}' is not a function`)
  }
  return handlers as ReadonlyMap<string, Handler>
}
