import { isOnceError, onceError } from '../errors.ts'
import { CLOSED_RETRY_MS, WAIT_POLL_MS_MAX, WAIT_POLL_MS_MIN } from '../limits.ts'
import { shortId, type Signal } from '../observe/signal.ts'
import { sleep } from '../platform/clock.ts'
import type { AnswerCache, CachedAnswer } from '../store/answer-cache.ts'
import type { Core } from './core.ts'
import { openEnclosing } from './enclosing.ts'
import type { Ending, InFlightOperation } from './in-flight.ts'
import { inFlightError, type Attempt, type Outcome, type Holds } from './outcome.ts'
import type { Request } from './request.ts'
import { cutOff } from './running.ts'
import { traced } from './traced.ts'

/**
 * One attempt. It reports when it has won the key and the handler is about to run (true), and when it releases the key.
 */
export type Attempting<Tx, R, P> = (core: Core<Tx>, request: R, produce: P, won: Holds) => Promise<Attempt>

/**
 * One call of one key, in any mode: it looks at memory first, then at this process's own operations, then makes an
 * attempt. A duplicate in this process never takes a connection. If the operation runs elsewhere, the call is refused,
 * or waits without holding a connection.
 */
export function execute<Tx, R extends Request, P>(
  core: Core<Tx>,
  request: R,
  produce: P,
  attempt: Attempting<Tx, R, P>,
): Promise<Outcome> {
  const { tracing } = core.settings
  if (!tracing) return executeNow(core, request, produce, attempt)
  return traced(core, tracing, request, () => executeNow(core, request, produce, attempt))
}

async function executeNow<Tx, R extends Request, P>(
  core: Core<Tx>,
  request: R,
  produce: P,
  attempt: Attempting<Tx, R, P>,
): Promise<Outcome> {
  // Until this call ends, duplicates in this process attach to it.
  let running: InFlightOperation | undefined
  let ending: Ending = OPEN
  try {
    // A running operation may still start other operations.
    if (core.closed && !openEnclosing(core.enclosing)) throw onceError('ONCE_CLOSED', { retryAfterMs: CLOSED_RETRY_MS })
    let lookedAt = core.clock.now()
    const until = lookedAt + request.waitMs
    for (;;) {
      const known = fromMemory(core, request)
      if (known) return known
      const other = core.inFlight.get(request.claim.id)
      if (!other) break
      const attached = await attach(core, request, other, until)
      if (attached) return attached
      lookedAt = core.clock.now()
    }
    const leading = (running = core.inFlight.start(request.claim.id, request.claim.fingerprint, request.route))
    const won: Holds = (holds) => (holds ? leading.run() : leading.look())
    const looking = core.shared?.get(request.claim.id, request)
    if (looking) {
      const shared = fromShared(core, await looking, request)
      if (shared) return shared
    }
    // Look up the namespace before a connection is held, because publishing needs it.
    if (core.namespace.pending) await core.namespace.enter()
    for (let pollMs = WAIT_POLL_MS_MIN; ; pollMs = Math.min(pollMs * 2, WAIT_POLL_MS_MAX)) {
      const result = await attempt(core, request, produce, won)
      if (result.kind === 'outcome') {
        if (result.stored) {
          ending = { kind: 'answered', outcome: result.outcome }
          if (core.shared && result.life !== undefined) share(core.shared, request, result.outcome, result.life)
        }
        return result.outcome
      }
      if (core.running.isCut) throw cutOff()
      leading.busy(lookedAt)
      const leftMs = until - core.clock.now()
      if (leftMs <= 0) throw inFlightError(result.retryAfterMs ?? core.pace.retryAfterMs(request.route))
      await sleep(core.clock, Math.min(leftMs, pollMs * (0.5 + core.random.next())))
      lookedAt = core.clock.now()
    }
  } catch (error) {
    const attaches = request.attaches === true && isOnceError(error, 'ONCE_IN_FLIGHT')
    if (isOnceError(error) && !attaches) rejected(core, request, error)
    throw error
  } finally {
    running?.end(ending)
  }
}

const OPEN: Ending = { kind: 'open' }

function fromMemory<Tx>(core: Core<Tx>, request: Request): Outcome | null {
  const entry = core.cache.get(request.claim.id)
  if (!entry || entry.fingerprintVersion !== request.claim.fingerprintVersion) return null
  if (entry.fingerprint !== request.claim.fingerprint) {
    // The entry may come from the shared cache, which is not trusted: only the database refuses.
    if (core.shared) return null
    throw onceError('ONCE_MISMATCH')
  }
  replayed(core, request, 'memory')
  return { answer: entry.answer, replayed: true }
}

/**
 * What the cache has that processes share. Whatever does not match is not this request's answer, so the database is
 * asked: only the database refuses.
 */
function fromShared<Tx>(core: Core<Tx>, entry: CachedAnswer | undefined, request: Request): Outcome | null {
  const { id, fingerprint, fingerprintVersion } = request.claim
  if (entry?.fingerprint !== fingerprint || entry.fingerprintVersion !== fingerprintVersion) return null
  core.cache.set(id, entry, request)
  replayed(core, request, 'cache')
  return { answer: entry.answer, replayed: true }
}

/** The commit was acknowledged. The record's life began after the call, so it ends after `until`. */
function share(shared: AnswerCache, request: Request, { answer }: Outcome, life: string): void {
  const { id, fingerprint, fingerprintVersion, replayForMs } = request.claim
  shared.set(id, { fingerprint, fingerprintVersion, answer, life, until: request.at + replayForMs }, request)
}

/** Waits for this process's own run of the key. Null: it ended without an answer for this call, so look again. */
async function attach<Tx>(
  core: Core<Tx>,
  request: Request,
  running: InFlightOperation,
  until: number,
): Promise<Outcome | null> {
  const same = running.fingerprint === request.claim.fingerprint
  const decided = await running.decided(request.at)
  if (decided === 'ended') {
    const ending = await running.ended
    return same ? attachedTo(core, request, ending) : null
  }
  // The operation that runs elsewhere may have the same input as this call. The call that waits for it here has
  // another.
  if (!same && decided === 'running') throw onceError('ONCE_MISMATCH')
  const leftMs = until - core.clock.now()
  if (leftMs <= 0) throw inFlightError(core.pace.retryAfterMs(request.route))
  const late = new AbortController()
  const timeout = sleep(core.clock, leftMs, late.signal).then((): null => null)
  const ending = await Promise.race([running.ended, timeout])
  late.abort()
  if (ending === null) throw inFlightError(core.pace.retryAfterMs(request.route))
  return same ? attachedTo(core, request, ending) : null
}

/** The result that another call produced. A replay is read again, because its record may have expired since then. */
function attachedTo<Tx>(core: Core<Tx>, request: Request, ending: Ending): Outcome | null {
  if (ending.kind === 'open' || ending.outcome.replayed) return null
  replayed(core, request, 'attached')
  return { answer: ending.outcome.answer, replayed: true }
}

type Replayed = Extract<Signal, { kind: 'replayed' }>['from']

export function replayed<Tx>(core: Core<Tx>, request: Request, from: Replayed): void {
  core.settings.observe({ kind: 'replayed', id: shortId(request.claim.id), route: request.route, from })
}

function rejected<Tx>(
  core: Core<Tx>,
  request: Request,
  error: { readonly code: Parameters<typeof onceError>[0] },
): void {
  core.settings.observe({ kind: 'rejected', id: shortId(request.claim.id), route: request.route, code: error.code })
}
