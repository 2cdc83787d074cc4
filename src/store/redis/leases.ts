import type { ClaimView, StoredRecord } from '../../lifecycle/record.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Claimed, Held, LeaseParams, Leases, StoredStep } from '../store.ts'
import { answerText } from './answer.ts'
import { claimedOf, operationOf, recordOf, stateNumber, type Fields } from './record.ts'
import { CLAIM, EVICT, FAIL, FINISH, GO_ON, LEASE, SHOW, STEP, SUSPEND, UNSTEP, type Script } from './scripts.ts'
import type { EvictionGuard } from './server.ts'
import { ReplicasShort, storeError, type Transition, type Transitions } from './transition.ts'

/**
 * A completed record is kept at least this long. So a key that is soon forgotten still gets a higher token, even from a
 * promoted server whose clock is behind.
 */
const TOKEN_KEPT_MS = 3_600_000
const STEP_PREFIX = ':'
const DONE_PREFIX = '='
const WON: ClaimView = { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false }

/** Every transition is one script about one key. Records are not searched, because Redis has no index over them. */
export function redisLeases(redis: Transitions, guard: EvictionGuard): Leases {
  const run = (script: Script, id: string, args: Transition['args'], code?: Parameters<typeof storeError>[1]) =>
    redis.run({ script, id, args, replicated: code !== undefined }).then(
      (reply) => Number(reply) === 1,
      (error: unknown) => {
        throw storeError(error, code)
      },
    )
  const setLease = ({ id, token }: Held, leaseMs: number): Promise<boolean> => run(LEASE, id, ['', token, leaseMs])

  async function take(params: LeaseParams, seen: StoredRecord | null): Promise<readonly unknown[]> {
    const { id, fingerprint, fingerprintVersion, replayForMs, goneForMs } = params.claim
    const nonce = systemRandom.uuid()
    const known = seen ? [seen.token, stateNumber(seen.state)] : ['', '']
    const args = [nonce, replayForMs, goneForMs, fingerprint, fingerprintVersion, params.leaseMs, ...known]
    try {
      await guard.check()
      const of = { script: CLAIM, id, args: [...args, ...notesOf(params)], replicated: true }
      return (await redis.run(of)) as readonly unknown[]
    } catch (error) {
      if (error instanceof ReplicasShort) {
        const reply = error.reply as readonly unknown[]
        // Nothing has run, so a retry need not wait for the lease.
        if (Number(reply[0]) === 1) await setLease({ id, token: String(reply[1]) }, 0).catch(() => false)
        else return reply
      }
      throw storeError(error)
    }
  }

  return {
    async claim(params) {
      const [won, ...rest] = await take(params, null)
      if (Number(won) === 1) return { view: WON, claimed: claimedOf(rest) }
      const [now, ...fields] = rest
      return { view: { ...WON, inserted: false, record: recordOf(now, fields as Fields), reread: true }, claimed: null }
    },
    async takeOver(params): Promise<Claimed | null> {
      const [won, ...rest] = await take(params, params.seen)
      return Number(won) === 1 ? claimedOf(rest) : null
    },
    async heartbeat({ leases, leaseMs }) {
      const held = await Promise.allSettled(leases.map((lease) => setLease(lease, leaseMs)))
      return leases.flatMap(({ id }, i) => {
        const renewed = held[i]
        // Not knowing is not losing: the next beat asks again.
        if (renewed?.status !== 'fulfilled') throw renewed?.reason
        return renewed.value ? [id] : []
      })
    },
    release: (held) => setLease(held, 0),
    finish: ({ id, token, claim, answer }) =>
      run(FINISH, id, [...endOf(claim), answerText(answer), token], 'ONCE_COMMIT_UNKNOWN'),
    async steps({ id, life }) {
      const fields = pairsOf(
        await redis.call(id, 'HGETALL').catch((error: unknown) => {
          throw storeError(error)
        }),
      )
      if (fields.get('l') !== life) return []
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
        return Number(await redis.run({ script: STEP, id, args: ['', token, field, ''], replicated: true })) === 1
      } catch (error) {
        // The call is not made. A record of its start would leave the operation unknown.
        if (error instanceof ReplicasShort) await run(UNSTEP, id, ['', token, field]).catch(() => false)
        throw storeError(error)
      }
    },
    finishStep: ({ id, token, name, result }) =>
      run(STEP, id, ['', token, STEP_PREFIX + name, DONE_PREFIX + result], 'ONCE_COMMIT_UNKNOWN'),
    suspend: ({ id, token }) => run(SUSPEND, id, [systemRandom.uuid(), token]),
    settle({ claim, verdict }) {
      const { id, replayForMs, goneForMs } = claim
      if (verdict.kind === 'failed')
        return run(FAIL, id, [...endOf(claim), answerText(verdict.answer)], 'ONCE_COMMIT_UNKNOWN')
      const step = [STEP_PREFIX + verdict.step, ...(verdict.kind === 'done' ? [DONE_PREFIX + verdict.result] : [])]
      return run(GO_ON, id, [systemRandom.uuid(), replayForMs, goneForMs, ...step], 'ONCE_COMMIT_UNKNOWN')
    },
    async show({ id }) {
      const reply = await redis.run({ script: SHOW, id, args: [''] }).catch((error: unknown) => {
        throw storeError(error)
      })
      const [now, notes, ...fields] = reply as [string, Fields, ...Fields]
      const operation = operationOf(id, now, notes, fields)
      return operation && { operation, input: notes[4] ?? null }
    },
    evict: ({ id, replayForMs, goneForMs }) =>
      run(EVICT, id, [systemRandom.uuid(), replayForMs, goneForMs], 'ONCE_COMMIT_UNKNOWN'),
  }
}

function endOf({ replayForMs, goneForMs }: LeaseParams['claim']): (string | number)[] {
  return [systemRandom.uuid(), replayForMs, goneForMs, TOKEN_KEPT_MS]
}

/** Fields and values in turn. An empty value stands for null. */
function notesOf({ about, recover }: LeaseParams): string[] {
  return [
    ...(about ? ['bn', about.namespace, 'br', about.route, 'bl', about.label ?? ''] : []),
    ...(recover ? ['rn', recover.name, 'ri', recover.input] : []),
  ]
}

/** RESP2 sends a map as a flat list, RESP3 as a map or an object. */
function pairsOf(reply: unknown): ReadonlyMap<string, string> {
  if (reply instanceof Map) return new Map([...reply].map(([field, value]) => [String(field), String(value)]))
  if (!Array.isArray(reply)) return new Map(Object.entries((reply ?? {}) as Record<string, string>))
  const pairs = new Map<string, string>()
  for (let i = 0; i + 1 < reply.length; i += 2) pairs.set(String(reply[i]), String(reply[i + 1]))
  return pairs
}
