import type { Answer } from '../../lifecycle/answer.ts'
import type { ClaimView } from '../../lifecycle/record.ts'
import { inTime } from '../../platform/in-time.ts'
import type { Claim, Claimed, Held, LeaseParams, Leases, StoredStep } from '../store.ts'
import { answerText } from './answer.ts'
import { claimedOf, endOfRecord, newClaimOf, operationOf, recordOf, stateNumber } from './record.ts'
import {
  CLAIM,
  EVICT,
  FAIL,
  FINISH,
  GO_ON,
  LEASE,
  SHOW,
  START,
  STEP,
  STEPS,
  SUSPEND,
  TAKE_OVER,
  UNSTEP,
  type Script,
} from './scripts.ts'
import type { ServerGuard } from './server.ts'
import { ReplicasShort, storeError, type Transition, type Transitions } from './transition.ts'

/**
 * A completed record is kept at least this long. So a key that is soon forgotten still gets a higher token, even from a
 * promoted server whose clock is behind.
 */
const TOKEN_KEPT_MS = 3_600_000
/** A server may drop an answer only so long after its expiry: a retry that saw the record before still reads it. */
const ANSWER_LATE_MS = 60_000
const STEP_PREFIX = ':'
const DONE_PREFIX = '='
const NAME_FIELD = 'in'
const INPUT_FIELD = 'i'
const WON: ClaimView = { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false }

/** Every transition is one script about one key. Records are not searched, because Redis has no index over them. */
export function redisLeases(redis: Transitions, guard: ServerGuard): Leases {
  const { clock, random } = redis.parts
  const unique = random.uuid()
  let calls = 0
  const nonce = (): string => `${unique}.${++calls}`
  const run = (script: Script, id: string, args: Transition['args'], code?: Parameters<typeof storeError>[1]) =>
    redis.run({ script, id, args, replicated: code !== undefined }).then(
      (reply) => Number(reply) === 1,
      (error: unknown) => {
        throw storeError(error, code)
      },
    )
  const setLease = ({ id, token }: Held, leaseMs: number): Promise<boolean> => run(LEASE, id, [token, `${leaseMs}`])

  /** Returns the reply of the script. Text: this caller has claimed the key. */
  function take(script: Script, params: LeaseParams, args: string[]): Promise<unknown> {
    const { id } = params.claim
    redis.waits.protect(params.leaseMs)
    if (params.recover) args.push(NAME_FIELD, params.recover.name, INPUT_FIELD, params.recover.input)
    const looking = guard.check(redis.keyOf(id))
    const of = { script, id, args, replicated: true }
    return (looking ? looking.then(() => redis.run(of)) : redis.run(of)).catch(async (error: unknown) => {
      if (error instanceof ReplicasShort) {
        const { reply } = error
        if (typeof reply !== 'string') return reply
        const token = script === CLAIM ? reply : claimedOf(reply).token
        // Nothing has run, so a retry need not wait for the lease.
        await setLease({ id, token }, 0).catch(() => false)
      }
      throw storeError(error)
    })
  }

  return {
    claim(params) {
      const { replayForMs } = params.claim
      const times = `;${Math.ceil(params.leaseMs)}000${timesOf(params.claim)};${nonce()}|`
      return take(CLAIM, params, [times, `;1${endOfRecord(params)}`]).then((reply) => {
        if (typeof reply === 'string') return { view: WON, claimed: newClaimOf(reply, replayForMs) }
        const [now, text] = reply as readonly [string, string]
        return { view: { ...WON, inserted: false, record: recordOf(now, text), reread: true }, claimed: null }
      })
    },
    async takeOver(params): Promise<Claimed | null> {
      const { seen, claim, leaseMs } = params
      const known = [nonce(), seen.token, stateNumber(seen.state)]
      const times = [leaseMs, claim.replayForMs, claim.goneForMs].map(String)
      const reply = await take(TAKE_OVER, params, [...known, ...times, endOfRecord(params)])
      return typeof reply === 'string' ? claimedOf(reply) : null
    },
    async heartbeat({ leases, leaseMs, withinMs = leaseMs, unsure }) {
      const late = (): Error => storeError(new Error(`no answer to a heartbeat in ${withinMs} ms`))
      const renewed = await Promise.all(
        leases.map((lease) =>
          inTime(setLease(lease, leaseMs), withinMs, late, clock).catch((error: unknown) => {
            // Not knowing is not losing: the next beat asks again. In a cluster, others are on other servers.
            if (!unsure) throw error
            unsure(lease.id, error)
            return false
          }),
        ),
      )
      return leases.filter((_, i) => renewed[i]).map(({ id }) => id)
    },
    release: (held) => setLease(held, 0),
    finish: ({ id, token, claim, answer }) =>
      run(FINISH, id, completionOf(nonce(), token, claim, answer), 'ONCE_COMMIT_UNKNOWN'),
    async steps({ id, life }) {
      const reply = await redis.run({ script: STEPS, id, args: [] }).catch((error: unknown) => {
        throw storeError(error)
      })
      const fields = pairsOf(reply as readonly string[])
      if (recordOf(0, fields.get('r') ?? null)?.life !== life) return []
      return [...fields].flatMap(([field, value]): StoredStep[] => {
        if (!field.startsWith(STEP_PREFIX)) return []
        const name = field.slice(STEP_PREFIX.length)
        if (!value.startsWith(DONE_PREFIX)) return [{ name, state: 'started', result: null }]
        return [{ name, state: 'done', result: value.slice(DONE_PREFIX.length) }]
      })
    },
    async startStep({ id, token, name }) {
      const field = STEP_PREFIX + name
      try {
        return Number(await redis.run({ script: START, id, args: [token, field], replicated: true })) === 1
      } catch (error) {
        // The call is not made. A record of its start would leave the operation unknown.
        if (error instanceof ReplicasShort) await run(UNSTEP, id, [token, field]).catch(() => false)
        throw storeError(error)
      }
    },
    finishStep: ({ id, token, name, result }) =>
      run(STEP, id, [token, STEP_PREFIX + name, DONE_PREFIX + result], 'ONCE_COMMIT_UNKNOWN'),
    suspend: ({ id, token }) => run(SUSPEND, id, [nonce(), token]),
    settle({ claim, verdict }) {
      const { id, replayForMs, goneForMs } = claim
      if (verdict.kind === 'failed')
        return run(FAIL, id, completionOf(nonce(), '', claim, verdict.answer), 'ONCE_COMMIT_UNKNOWN')
      const step = [STEP_PREFIX + verdict.step, ...(verdict.kind === 'done' ? [DONE_PREFIX + verdict.result] : [])]
      return run(GO_ON, id, [nonce(), `${replayForMs}`, `${goneForMs}`, ...step], 'ONCE_COMMIT_UNKNOWN')
    },
    async show({ id }) {
      const reply = await redis.run({ script: SHOW, id, args: [] }).catch((error: unknown) => {
        throw storeError(error)
      })
      const [now, text, recover, input] = reply as readonly [string, ...(string | null)[]]
      if (typeof text !== 'string') return null
      return { operation: { ...operationOf(id, now, text), recover: recover ?? null }, input: input ?? null }
    },
    evict: ({ id, replayForMs, goneForMs }) =>
      run(EVICT, id, [nonce(), `${replayForMs}`, `${goneForMs}`], 'ONCE_COMMIT_UNKNOWN'),
  }
}

/** Expiry, and the time when the key is forgotten, in microseconds from now. Large numbers are slow to write as text. */
function timesOf({ replayForMs, goneForMs }: Claim): string {
  return `;${Math.ceil(replayForMs)}000;${Math.ceil(replayForMs + goneForMs)}000`
}

function completionOf(nonce: string, token: string, claim: Claim, answer: Answer): string[] {
  const { replayForMs, goneForMs } = claim
  const keptMs = Math.ceil(Math.max(replayForMs + goneForMs, TOKEN_KEPT_MS))
  return [
    token,
    `;0${timesOf(claim)};${nonce}`,
    `${keptMs}`,
    answerText(answer),
    `${Math.ceil(replayForMs) + ANSWER_LATE_MS}`,
  ]
}

function pairsOf(list: readonly string[]): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>()
  for (let i = 0; i + 1 < list.length; i += 2) pairs.set(list[i] ?? '', list[i + 1] ?? '')
  return pairs
}
