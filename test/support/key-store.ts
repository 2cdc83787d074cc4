import type { Answer } from '../../src/lifecycle/answer.ts'
import type { StoredRecord } from '../../src/lifecycle/record.ts'
import type { Claim, Claimed, Held, Leases, StoredStep, Store } from '../../src/store/store.ts'

interface Entry {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly token: string
  readonly life: string
  readonly attempt: number
  readonly state: StoredRecord['state']
  readonly leaseUntil: number
  readonly expiresAt: number
  readonly forgetAt: number
  readonly answer: Answer | null
}

/** The smallest store there can be: one map, one key per operation, no transactions. What Redis would do in scripts. */
export class KeyStore implements Store<undefined> {
  readonly name = 'key'
  readonly features = { transactional: false, concurrentClaims: true, serverDeadline: false }
  readonly leases: Leases
  protected readonly entries = new Map<string, Entry>()
  readonly #steps = new Map<string, Map<string, StoredStep>>()
  #tokens = 1_000

  constructor() {
    this.leases = {
      claim: async ({ claim, leaseMs }) => {
        const record = this.record(claim.id)
        const view = { inserted: !record, sameRunning: false, otherRunning: false, record, reread: true }
        return { view, claimed: record ? null : this.start(claim, Date.now() + leaseMs) }
      },
      takeOver: async ({ claim, leaseMs, seen }) => {
        const [entry, now] = [this.entries.get(claim.id), Date.now()]
        if (entry?.token !== seen.token || entry.state !== seen.state) return null
        if (entry.state === 'completed') return entry.expiresAt <= now ? this.start(claim, now + leaseMs) : null
        if (entry.state === 'unknown' || entry.leaseUntil > now || entry.expiresAt <= now) return null
        const { fingerprint, fingerprintVersion } = claim
        const next = { fingerprint, fingerprintVersion, token: this.#token(), attempt: entry.attempt + 1 }
        return this.put(claim.id, { ...entry, ...next, leaseUntil: now + leaseMs })
      },
      heartbeat: async ({ leases, leaseMs }) =>
        leases.filter((held) => this.change(held, { leaseUntil: Date.now() + leaseMs })).map(({ id }) => id),
      release: async (held) => this.change(held, { leaseUntil: 0 }),
      finish: async ({ claim, answer, ...held }) => this.change(held, completed(claim, answer)),
      suspend: async (held) => this.change(held, { state: 'unknown' }),
      steps: async ({ id, life }) => [...(this.#steps.get(`${id} ${life}`)?.values() ?? [])],
      startStep: async ({ life, name, ...held }) => this.#step(held, life, { name, state: 'started', result: null }),
      finishStep: async ({ life, name, result, ...held }) => this.#step(held, life, { name, state: 'done', result }),
      settle: async ({ claim, verdict }) => {
        const [entry, now] = [this.entries.get(claim.id), Date.now()]
        const ends = verdict.kind === 'failed'
        const lapsed = entry?.state === 'inProgress' && entry.leaseUntil <= now && (ends || entry.expiresAt <= now)
        if (!entry || (entry.state !== 'unknown' && !lapsed)) return false
        const times = timesOf(claim, entry.expiresAt)
        if (verdict.kind === 'failed')
          this.put(claim.id, { ...entry, ...times, state: 'completed', answer: verdict.answer })
        else this.put(claim.id, { ...entry, ...times, state: 'inProgress', leaseUntil: 0 })
        const steps = this.#stepsOf(claim.id, entry.life)
        if (verdict.kind === 'rerun') steps.delete(verdict.step)
        if (verdict.kind === 'done')
          steps.set(verdict.step, { name: verdict.step, state: 'done', result: verdict.result })
        return true
      },
    }
  }

  async read({ id }: { readonly id: string }): ReturnType<Store<undefined>['read']> {
    return { record: this.record(id), answer: this.entries.get(id)?.answer ?? null }
  }

  async close(): Promise<void> {
    this.entries.clear()
  }

  protected record(id: string): StoredRecord | null {
    const [entry, now] = [this.entries.get(id), Date.now()]
    if (!entry || (entry.state === 'completed' && entry.forgetAt <= now)) {
      this.entries.delete(id)
      return null
    }
    const { answer: _answer, leaseUntil, expiresAt, forgetAt, ...same } = entry
    const leaseLeftMs = same.state === 'inProgress' ? leaseUntil - now : null
    return { ...same, leaseLeftMs, expiresInMs: expiresAt - now, forgetInMs: forgetAt - now, answerDay: '2030-01-01' }
  }

  protected start({ id, fingerprint, fingerprintVersion, ...times }: Claim, leaseUntil: number): Claimed {
    const token = this.#token()
    const made = { fingerprint, fingerprintVersion, token, life: token, attempt: 1, answer: null }
    return this.put(id, { ...made, state: 'inProgress', leaseUntil, ...timesOf(times) })
  }

  protected put(id: string, entry: Entry): Claimed {
    this.entries.set(id, entry)
    const { token, life, attempt } = entry
    return { token, life, attempt, answerDay: '2030-01-01' }
  }

  /** Every write of a holder is compared with the token in here: the fence. */
  protected change({ id, token }: Held, to: Partial<Entry>): boolean {
    const entry = this.entries.get(id)
    if (entry?.token !== token || entry.state !== 'inProgress') return false
    this.put(id, { ...entry, ...to })
    return true
  }

  #step(held: Held, life: string, step: StoredStep): boolean {
    if (!this.change(held, {})) return false
    const steps = this.#stepsOf(held.id, life)
    // A start that comes late leaves the recorded result.
    if (step.state === 'done' || !steps.has(step.name)) steps.set(step.name, step)
    return true
  }

  #stepsOf(id: string, life: string): Map<string, StoredStep> {
    const key = `${id} ${life}`
    const steps = this.#steps.get(key) ?? new Map<string, StoredStep>()
    this.#steps.set(key, steps)
    return steps
  }

  #token(): string {
    return String(++this.#tokens)
  }
}

type Times = Pick<Claim, 'replayForMs' | 'goneForMs'>

function timesOf({ replayForMs, goneForMs }: Times, atLeast = 0): Pick<Entry, 'expiresAt' | 'forgetAt'> {
  const expiresAt = Math.max(atLeast, Date.now() + replayForMs)
  return { expiresAt, forgetAt: expiresAt + goneForMs }
}

export function completed(claim: Times, answer: Answer): Partial<Entry> {
  return { state: 'completed', answer, ...timesOf(claim) }
}
