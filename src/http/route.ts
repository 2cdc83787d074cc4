import { milliseconds, type Duration } from '../duration.ts'
import { BODY_BYTES_DEFAULT, BODY_BYTES_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN } from '../limits.ts'
import { invalid, oneOf, optionalFunction, refuseUnknown } from '../options.ts'
import { NOTE_LENGTH_MAX } from '../operation/notes.ts'
import { isName } from '../platform/storable.ts'
import { keptHeaders } from './headers.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { PROBLEM_DOCS } from './problem.ts'
import { createSeal, type Seal } from './seal.ts'

/** The checked options of one route. */
export interface Route<Req> {
  readonly scope: 'global' | ((request: Req) => string)
  readonly required: boolean
  /** The header's name as messages show it. */
  readonly header: string
  /** The header's name in lower case, as in Node's headers. */
  readonly headerKey: string
  readonly methods: ReadonlySet<string>
  readonly keyFormat: 'any' | 'uuid' | { readonly minLength: number }
  readonly overrides: Pick<
    IdempotencyOptions<Req>,
    'inFlight' | 'expired' | 'deadline' | 'endsWithin' | 'replayFor' | 'goneFor'
  >
  readonly ignore: readonly string[] | undefined
  readonly fingerprintHeaders: readonly string[]
  readonly digest: boolean
  readonly bodyLimit: number
  readonly kept: ReadonlySet<string>
  /** What becomes of a 4xx answer: stored alone, stored with its rows, or forgotten. */
  readonly refusals: 'store' | 'keep' | 'release'
  readonly streams: 'buffer' | 'refuse' | 'record' | undefined
  /** The handler of a recorded stream appends to what earlier attempts wrote. */
  readonly resume: boolean
  readonly onReplay: IdempotencyOptions<Req>['onReplay']
  readonly version: string | null
  readonly upgrade: IdempotencyOptions<Req>['upgrade']
  readonly seal: Seal | null
  readonly docs: string
  readonly onError: IdempotencyOptions<Req>['onError']
  readonly errors: 'problem' | 'framework'
  readonly label: IdempotencyOptions<Req>['label']
  /** Null: the route's pattern is its name. */
  readonly name: string | null
  readonly recover: RouteOptions<Req>['recover']
  /** Null: the route is atomic. */
  readonly leaseMs: number | null
}

const OPTIONS = new Set([
  'scope',
  'required',
  'header',
  'methods',
  'keyFormat',
  'inFlight',
  'ignore',
  'fingerprint',
  'bodyLimit',
  'keepHeaders',
  'keep4xx',
  'refusals',
  'expired',
  'deadline',
  'endsWithin',
  'replayFor',
  'goneFor',
  'streams',
  'resume',
  'onReplay',
  'version',
  'upgrade',
  'encrypt',
  'docs',
  'onError',
  'errors',
  'label',
  'lease',
  'name',
  'recover',
])
const FINGERPRINT_OPTIONS = new Set(['ignore', 'headers', 'digest'])
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/
const POINTER = /^\//

/** Checks all options of a route when the program starts, not when a request comes. */
export function checkRoute<Req>(
  shared: IdempotencyOptions<Req>,
  own: RouteOptions<Req, Duration | undefined> = {},
): Route<Req> {
  if (typeof shared !== 'object' || shared === null) throw invalid('idempotency() needs { scope }')
  refuseUnknown(shared, OPTIONS, 'idempotency()')
  refuseUnknown(own, OPTIONS, 'idempotent()')
  const options = { ...shared, ...own }
  const { fingerprint = {} } = options
  refuseUnknown(fingerprint, FINGERPRINT_OPTIONS, 'fingerprint')
  const header = checkToken('header', options.header ?? 'Idempotency-Key')
  return {
    scope: checkScopeOption(options.scope),
    required: oneOf('required', options.required, [true, false], true),
    header,
    headerKey: header.toLowerCase(),
    methods: new Set(
      (options.methods ?? ['POST', 'PATCH']).map((method) => checkToken('methods', method).toUpperCase()),
    ),
    keyFormat: checkKeyFormat(options.keyFormat),
    overrides: overridesOf(options),
    ignore: checkPointers([...(options.ignore ?? []), ...(fingerprint.ignore ?? [])]),
    fingerprintHeaders: (fingerprint.headers ?? []).map((name) =>
      checkToken('fingerprint.headers', name).toLowerCase(),
    ),
    digest: oneOf('fingerprint.digest', fingerprint.digest, [true, false], false),
    bodyLimit: bodyLimitOf(options.bodyLimit),
    kept: keptHeaders(options.keepHeaders),
    refusals: checkRefusals(options),
    ...recorded(options),
    onReplay: optionalFunction('onReplay', options.onReplay),
    version: checkVersion(options.version),
    upgrade: optionalFunction('upgrade', options.upgrade),
    seal: options.encrypt === undefined ? null : createSeal(options.encrypt.keys),
    docs: checkDocs(options.docs),
    onError: optionalFunction('onError', options.onError),
    errors: oneOf<'problem' | 'framework'>('errors', options.errors, ['problem', 'framework'], 'problem'),
    label: optionalFunction('label', options.label),
    ...recoverable(own),
    leaseMs: 'lease' in options && options.lease !== undefined ? leaseMs(options.lease) : null,
  }
}

/** A recorded stream needs a lease: no transaction stays open while bytes leave. */
function recorded<Req>(given: RouteOptions<Req, Duration | undefined>): Pick<Route<Req>, 'streams' | 'resume'> {
  const options: Omit<typeof given, 'streams'> & Partial<Pick<Route<Req>, 'streams' | 'resume'>> = given
  const streams = oneOf<'buffer' | 'refuse' | 'record' | undefined>(
    'streams',
    options.streams,
    ['buffer', 'refuse', 'record'],
    undefined,
  )
  const resume = oneOf('resume', options.resume, [true, false], false)
  if (streams !== 'record' && resume) throw invalid("resume needs streams: 'record'")
  if (streams === 'record' && options.lease === undefined)
    throw invalid("streams: 'record' needs a lease, such as { lease: '30s' }")
  for (const other of ['encrypt', 'recover', 'upgrade', 'keep4xx'] as const)
    if (streams === 'record' && options[other]) throw invalid(`streams: 'record' cannot be combined with ${other}`)
  return { streams, resume }
}

/** Only the options that were given. The instance's settings apply to the others. */
function overridesOf<Req>(options: IdempotencyOptions<Req>): Route<Req>['overrides'] {
  const { inFlight, expired, deadline, endsWithin, replayFor, goneFor } = options
  return {
    ...(inFlight === undefined ? {} : { inFlight }),
    ...(expired === undefined ? {} : { expired }),
    ...(deadline === undefined ? {} : { deadline }),
    ...(endsWithin === undefined ? {} : { endsWithin }),
    ...(replayFor === undefined ? {} : { replayFor }),
    ...(goneFor === undefined ? {} : { goneFor }),
  }
}

function checkRefusals<Req>({ keep4xx, refusals }: IdempotencyOptions<Req>): Route<Req>['refusals'] {
  const stored = oneOf<'store' | 'release'>('refusals', refusals, ['store', 'release'], 'store')
  if (!oneOf('keep4xx', keep4xx, [true, false], false)) return stored
  if (refusals === undefined) return 'keep'
  throw invalid('set keep4xx or refusals, not both')
}

function leaseMs(lease: Duration): number {
  return milliseconds(lease, LEASE_MS_DEFAULT, { option: 'lease', min: LEASE_MS_MIN, max: LEASE_MS_MAX })
}

/**
 * After a restart, only the name identifies the route of a stored request. The pattern is unknown until a request
 * comes.
 */
function recoverable<Req>({
  name,
  recover,
  lease,
}: RouteOptions<Req, Duration | undefined>): Pick<Route<Req>, 'name' | 'recover'> {
  if (name !== undefined && !isName(name, NOTE_LENGTH_MAX))
    throw invalid(`name must be a string of 1 to ${NOTE_LENGTH_MAX} bytes`)
  if (recover === undefined) return { name: name ?? null, recover }
  if (name === undefined) throw invalid('recover needs a name that stays the same, such as { name: "charges" }')
  if (lease === undefined) throw invalid('recover needs a lease: an atomic operation is never abandoned')
  return { name, recover: optionalFunction('recover', recover) }
}

/** Checks `bodyLimit`, in bytes. */
export function bodyLimitOf(bytes: number | undefined): number {
  if (bytes === undefined) return BODY_BYTES_DEFAULT
  if (Number.isInteger(bytes) && bytes >= 1 && bytes <= BODY_BYTES_MAX) return bytes
  throw invalid(`bodyLimit must be from 1 to ${BODY_BYTES_MAX} bytes`)
}

function checkScopeOption<T>(scope: T): T {
  if (scope === 'global' || typeof scope === 'function') return scope
  throw invalid(`scope must be a function of the request, such as (req) => req.user.id, or 'global'`)
}

function checkToken(option: string, value: unknown): string {
  if (typeof value === 'string' && TOKEN.test(value)) return value
  throw invalid(`${option} must be a name that HTTP allows`)
}

function checkKeyFormat(format: Route<never>['keyFormat'] | undefined): Route<never>['keyFormat'] {
  if (format === undefined || format === 'any' || format === 'uuid') return format ?? 'any'
  const { minLength } = format
  if (Number.isInteger(minLength) && minLength >= 1 && minLength <= 255) return { minLength }
  throw invalid(`keyFormat must be 'any', 'uuid' or { minLength } from 1 to 255`)
}

function checkPointers(pointers: readonly string[]): readonly string[] | undefined {
  if (pointers.length === 0) return undefined
  if (pointers.every((pointer) => typeof pointer === 'string' && POINTER.test(pointer))) return pointers
  throw invalid('ignore must be a list of JSON pointers such as /sentAt')
}

function checkVersion(version: unknown): string | null {
  if (version === undefined) return null
  if (typeof version === 'string' && /^[\x21-\x7e]{1,100}$/.test(version)) return version
  throw invalid('version must be 1 to 100 visible ASCII characters')
}

function checkDocs(docs: string | undefined): string {
  if (docs === undefined) return PROBLEM_DOCS
  if (typeof docs === 'string' && /^[\x21\x23-\x3b\x3d\x3f-\x7e]{1,500}$/.test(docs)) return docs
  throw invalid('docs must be the address of a page')
}
