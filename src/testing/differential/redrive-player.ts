import type { LetterFilter } from '../../store/dead-letters.ts'
import type { InboxItem } from '../../store/inbox.ts'
import type { RedriveDecision, RedriveHeld, RedriveLease, Redrives } from '../../store/redrives.ts'
import type { SqlSession } from '../../store/store.ts'
import { LEASE_MS } from '../contract/make.ts'
import type { SqlSubject } from '../contract/subject.ts'
import type { InboxOp, MessageFilter } from './inbox-script.ts'
import type { InboxTeller } from './inbox-teller.ts'
import { pause, SHORT_MS } from './keys.ts'

type Filtering = (of: { filter: MessageFilter; message: number }) => LetterFilter & { consumer: string }

const BY = { by: 'ada', why: 'because' }

/** Plays the part of a script that is about redrives, always on the newest one. */
export class RedrivePlayer {
  private readonly redrives: Redrives<unknown>
  private readonly consumer: string
  private readonly items: readonly InboxItem[]
  private readonly teller: InboxTeller
  private readonly leases: RedriveLease[] = []
  private newest: number | null = null

  constructor({ store }: SqlSubject, consumer: string, items: readonly InboxItem[], teller: InboxTeller) {
    this.redrives = store.redrives
    this.consumer = consumer
    this.items = items
    this.teller = teller
  }

  play(op: InboxOp, filtering: Filtering): Promise<unknown> | null {
    const { redrives } = this
    switch (op.do) {
      case 'plan':
        return redrives.plan({ filter: filtering(op) }).then((rows) => rows.map((row) => this.teller.plan(row)))
      case 'create':
        return this.create(op, filtering(op))
      case 'claim':
        return this.claim(op.lapses)
      case 'import':
        return this.import(op.message)
      case 'write':
        return redrives.write({ ...BY, action: 'note', redrive: null, detail: '{"a":[1]}' }).then(() => 'written')
      default:
        return this.newest === null ? null : this.ofNewest(op, this.newest)
    }
  }

  /**
   * Settles the letters of these messages in the transaction of their effects. Returns null if no redrive is claimed.
   */
  async settle(session: SqlSession<unknown>, messages: readonly number[]): Promise<boolean | null> {
    const lease = this.leases.at(-1)
    if (lease === undefined || messages.length === 0) return null
    const all = await this.all(lease.redrive)
    const ords = all.filter(({ letter }) => messages.some((n) => this.items[n]!.id === letter.id)).map(({ ord }) => ord)
    return this.redrives.settle(session, { ...lease, ords })
  }

  async state(): Promise<unknown> {
    if (this.newest === null) return null
    const redrive = await this.redrives.get({ redrive: this.newest })
    return [redrive && this.teller.redrive(redrive), (await this.all(this.newest)).map((of) => this.teller.item(of))]
  }

  private ofNewest(op: InboxOp, redrive: number): Promise<unknown> | null {
    const { redrives, teller } = this
    switch (op.do) {
      case 'items':
        return this.all(redrive).then((all) => all.map((of) => teller.item(of)))
      case 'copy':
        return redrives.copy({ redrive, copies: [{ ord: 1, body: '{"b":2}' }] }).then(() => 'copied')
      case 'status':
        return redrives.get({ redrive }).then((of) => of && teller.redrive(of))
      case 'audit':
        return redrives.audit({ redrive, limit: 100 }).then((all) => all.map((of) => teller.audit(of)))
      case 'change':
        return this.change(op, redrive)
      case 'beat':
        return this.held(op.back, (held) =>
          redrives
            .beat({ ...held, leaseMs: LEASE_MS, starting: op.starting, ended: except(op.ended, op.starting) })
            .then((beat) => beat && teller.beat(beat)),
        )
      case 'decide':
        return this.held(op.back, (held) => redrives.decide({ ...held, decisions: [decisionOf(op)] }))
      case 'release':
        return this.held(op.back, (held) => redrives.release(held).then(() => 'released'))
      default:
        return null
    }
  }

  private async create(op: Extract<InboxOp, { do: 'create' }>, filter: LetterFilter & { consumer: string }) {
    const { canary, reorder, prepare } = op
    const rest = { canaryStops: false, rate: 50, pauseAt: 0.2, force: false }
    const created = await this.redrives.create({ filter, ...BY, asked: '{}', prepare, canary, reorder, ...rest })
    if (created.kind === 'refused') return ['refused', created.plan && this.teller.plan(created.plan)]
    if (created.kind === 'active') return ['active', this.teller.number(created.redrive)]
    this.newest = created.redrive
    this.leases.length = 0
    return ['created', this.teller.number(created.redrive), this.teller.plan(created.plan)]
  }

  private async claim(lapses: boolean): Promise<unknown> {
    const lease = await this.redrives.claim({ consumer: this.consumer, leaseMs: lapses ? SHORT_MS : LEASE_MS })
    await pause()
    if (lease === null) return null
    this.leases.push(lease)
    return [this.teller.number(lease.redrive), lease.rate, lease.pauseAt]
  }

  private held(back: number, call: (held: RedriveHeld) => Promise<unknown>): Promise<unknown> | null {
    const lease = this.leases.at(-1 - back)
    return lease === undefined ? null : call({ redrive: lease.redrive, token: lease.token })
  }

  private async change(op: Extract<InboxOp, { do: 'change' }>, redrive: number): Promise<unknown> {
    const { from, to, retry, passed, held } = op
    const token = held ? (this.leases.at(-1)?.token ?? '0') : undefined
    const reason = to === 'running' ? null : 'asked'
    const changed = await this.redrives.change({ redrive, from, to, reason, ...BY, action: to, token, retry, passed })
    return changed && this.teller.redrive(changed)
  }

  private async import(message: number): Promise<unknown> {
    const { id, lock, source, message: name, aggregate, previous } = this.items[message]!
    const of = { id, lock, source, message: name, aggregate, previous, consumer: this.consumer, tenant: null }
    const why = {
      state: 'parked',
      reason: 'failed',
      error: 'no',
      fingerprint: 'f0',
      causes: '[]',
      attempts: 2,
    } as const
    const what = { type: 'order.placed', body: '{}', shown: null, headers: '{}', traceparent: null, timeline: '[]' }
    const letters = [{ ...of, ...why, ...what, parkedAt: Date.now() }]
    const { busy, ...counts } = await this.redrives.import({ letters })
    return { ...counts, busy: busy.length }
  }

  private all(redrive: number): ReturnType<Redrives<unknown>['items']> {
    const outcomes = ['pending', 'applied', 'already', 'failed', 'blocked', 'gone'] as const
    return this.redrives.items({ redrive, outcomes, after: 0, limit: 100 })
  }
}

function decisionOf({ ord, outcome }: Extract<InboxOp, { do: 'decide' }>): RedriveDecision {
  if (outcome === 'already' || outcome === 'gone') return { ord, outcome }
  const failed = outcome === 'blocked' ? 'blocked' : 'failed'
  return { ord, outcome: failed, reason: 'failed', error: 'again', fingerprint: 'f2', causes: '[]' }
}

function except(all: readonly number[], others: readonly number[]): number[] {
  return all.filter((n) => !others.includes(n))
}
