import { type Clock, sleep } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { type Received, send, withinTime } from './attempt.ts'
import { type Breaker, breakerOf } from './breaker.ts'
import { CallError, notSent } from './call-error.ts'
import { BUDGET_REFUND, POLICY_FRESH_MS, POLICY_PATH } from './limits.ts'
import { memoryMsIn } from './policy.ts'
import type { Settings } from './settings.ts'
import { listed, type StoredCall } from './stored-call.ts'
import type { CallResponse, CallState, CallVerdict } from './types.ts'
import { ownCode, retryAfterMs } from './verdict.ts'

export interface Seams {
  readonly clock: Clock
  readonly random: Random
  /** Milliseconds since 1970. */
  readonly timeOfDay: () => number
}

export interface Run {
  /** As its caller asks for it, and then as it is stored: its key may be an older one. */
  call: StoredCall
  /** When its caller stops waiting. */
  readonly endsAt: number
  /** Whether the time left is too short for another attempt. */
  isOver?: boolean
  readonly signal: AbortSignal | null | undefined
  /** Headers of this caller, some with secrets, and settings of fetch that cannot be stored. */
  readonly headers: Iterable<readonly [string, string]>
  readonly extra?: Readonly<Record<string, unknown>>
}

/** How a call ended, and what its caller gets. */
export interface Ending {
  /** What becomes of its record. `refused`: the answer was not stored, so the key may be used again. */
  readonly state: CallState
  readonly response?: CallResponse
  readonly error?: CallError
}

interface Origin {
  readonly name: string
  readonly breaker: Breaker
  /** What its policy says. */
  policy?: Promise<number | undefined>
  /** How long the server remembers a key, as far as the client could read. */
  retentionMs: number
  /** A deployment may shorten the retention, so then the policy is read again. */
  until: number
}

type Last = { readonly response?: CallResponse; readonly cause?: unknown }

/** Answers that servers do not store with the key, because they say nothing about the operation. */
const NOT_STORED = [401, 403, 408, 409, 423, 425, 429]

/** Returns a function that sends one call until it ends. `inDoubt`: an earlier attempt may have run. */
export function retriesOf(
  settings: Settings,
  { clock, random, timeOfDay }: Seams,
): (call: StoredCall, run: Run, inDoubt: boolean) => Promise<Ending> {
  const { budget, fetch, header, timeoutMs } = settings
  const origins = new Map<string, Origin>()
  let tokens = budget

  const withTimeLeft = <T>({ endsAt, signal }: Run, work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    withinTime(clock, Math.min(timeoutMs, endsAt - clock.now()), signal, work)

  /** An answer can be repeated only while the server remembers the key. Later, a retry could run a second time. */
  async function pastRetention(call: StoredCall, origin: Origin, run: Run): Promise<Ending | undefined> {
    // A clock that was set back tells nothing about the age, so its step counts as age.
    const ageMs = (): number => Math.abs(timeOfDay() - call.since)
    try {
      if (settings.policy !== false) {
        if (clock.now() >= origin.until) {
          origin.until = clock.now() + POLICY_FRESH_MS
          origin.policy = withinTime(clock, timeoutMs, null, async (signal) =>
            memoryMsIn(await fetch(origin.name + POLICY_PATH, { signal })),
          )
        }
        origin.retentionMs = (await withTimeLeft(run, async () => origin.policy)) ?? settings.retentionMs
      }
    } catch (cause) {
      origin.until = 0
      if (ageMs() > POLICY_FRESH_MS) return leftOpen(call, true, 'the policy cannot be read', { cause })
    }
    if (ageMs() + timeoutMs < origin.retentionMs) return undefined
    const message = 'the key may be forgotten'
    return { state: 'stopped', error: new CallError('ONCE_GONE', 410, message, { call }) }
  }

  function ended(call: StoredCall, { response, problem }: Received, verdict: CallVerdict, inDoubt: boolean): Ending {
    const { status } = response
    const said = `the server answered ${status}`
    if (verdict === 'answer') {
      if (status < 400) return { state: 'done', response }
      const isStored = !NOT_STORED.includes(status)
      // A refusal that does not come from the protected route says nothing about an earlier attempt.
      if (inDoubt && !response.replayed && !(settings.echoes ? response.headers.has(header) : isStored))
        return leftOpen(call, true, said, { response })
      return { state: isStored ? 'none' : 'refused', response }
    }
    // An error about the key says that nothing runs now. An earlier attempt may have run.
    const state = verdict === 'key-invalid' && !inDoubt ? 'none' : verdict === 'unreplayable' ? 'done' : 'stopped'
    const code = ownCode(problem)
    const message = (code && (problem as { detail?: string }).detail) || said
    const own = code ?? `ONCE_${verdict.toUpperCase().replace('-', '_')}`
    return { state, error: new CallError(own, status, message, { call, response }) }
  }

  return async (call, run, inDoubt) => {
    const { endsAt, extra, headers: own, signal } = run
    const name = new URL(call.url).origin
    const origin = origins.get(name) ?? {
      name,
      retentionMs: settings.retentionMs,
      until: 0,
      breaker: breakerOf(clock, settings.failures, settings.restMs),
    }
    origins.set(name, origin)
    const { breaker } = origin
    let last: Last = {}
    const isOver = (pauseMs: number): boolean => (run.isOver = clock.now() + pauseMs >= endsAt)
    const leave = (why: string, cause = last.cause): Ending => leftOpen(call, inDoubt, why, { ...last, cause })

    for (let sends = 0, pauses = 0; ;) {
      if (signal?.aborted) return leave('it was aborted', signal.reason)
      let isSent = false
      let pauseMs = breaker.waitMs()
      // A wait for the breaker sends nothing, so it is no retry.
      let cost = pauseMs > 0 ? 0 : 1
      if (cost === 0) {
        if (!inDoubt) {
          const of = { call, retryAfterMs: pauseMs }
          return { state: 'none', error: notSent('ONCE_CIRCUIT_OPEN', 503, 'the server failed too often', of) }
        }
      } else {
        const refused = inDoubt && (await pastRetention(call, origin, run))
        if (refused) return refused
        // The policy or the storage may have used up the time.
        if (isOver(0)) return leave('its deadline passed')
        pauseMs = Math.min(settings.maxMs, settings.baseMs * 2 ** pauses++) * random.next()
        try {
          const received = await withTimeLeft(run, async (withSignal) => {
            const headers = new Headers(call.headers as [string, string][])
            const fresh = new Headers(await settings.headers?.(listed(call, true)))
            for (const [name, value] of [...own, ...fresh, [header, call.key] as const]) headers.set(name, value)
            withSignal.throwIfAborted()
            isSent = true
            return send(call, fetch, { ...extra, headers, signal: withSignal })
          })
          const { response } = received
          const { status, headers } = response
          const verdict = settings.judge({ ...received, status, headers })
          breaker.heard(verdict === 'retry' && status >= 500)
          // A wait for a running attempt is no retry.
          if (verdict === 'in-flight') cost = 0
          else if (verdict !== 'retry') {
            tokens = Math.min(budget, tokens + BUDGET_REFUND)
            return ended(call, received, verdict, inDoubt)
          }
          // A refused rate leaves nothing behind. Everything else may have run, or is running.
          if (status !== 429) inDoubt = true
          last = { response }
          const toldMs = retryAfterMs(headers, timeOfDay())
          pauseMs = (cost === 0 && toldMs) || Math.max(toldMs, pauseMs)
        } catch (cause) {
          inDoubt ||= isSent
          last = { cause }
          if (signal?.aborted) continue
          if (isSent) breaker.heard(true)
        }
      }
      const isLate = isOver(pauseMs)
      sends += cost
      if (sends >= settings.attempts) return leave(`it was tried ${sends} times`)
      if (tokens < cost) return leave('its budget is empty')
      if (isLate) return leave('its deadline passed')
      tokens -= cost
      await sleep(clock, pauseMs, signal)
    }
  }
}

/** Nobody knows the outcome, or nothing was done. */
export function leftOpen(call: StoredCall, inDoubt: boolean, why: string, last: Last): Ending {
  const message = `${inDoubt ? 'the call stays pending' : 'nothing was done'}: ${why}`
  return {
    state: inDoubt ? 'pending' : 'none',
    error: new CallError('ONCE_CALL_PENDING', 503, message, { ...last, call }),
  }
}
