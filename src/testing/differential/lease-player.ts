import type { Claim, Claimed, SqlSession } from '../../store/store.ts'
import { completing, DEADLINE_MS, LEASE_MS, leaseOf } from '../contract/make.ts'
import type { SqlSubject } from '../contract/subject.ts'
import { pause, SHORT_MS } from './keys.ts'
import type { Keys } from './keys.ts'
import type { Op } from './script.ts'
import type { Teller } from './teller.ts'

/** Plays the part of a script that is about leases and their steps. */
export class LeasePlayer {
  private readonly subject: SqlSubject
  private readonly keys: Keys
  private readonly teller: Teller
  private readonly held = new Map<number, { claim: Claim; claimed: Claimed }[]>()

  constructor(subject: SqlSubject, keys: Keys, teller: Teller) {
    this.subject = subject
    this.keys = keys
    this.teller = teller
  }

  async lease(op: Extract<Op, { do: 'lease' }>): Promise<unknown> {
    const claim = this.keys.claim(op.key, op.input, op.short)
    const recover = { namespace: this.keys.prefix, name: 'again', input: '{}' }
    const leaseMs = op.lapses ? SHORT_MS : LEASE_MS
    const { view, claimed } = await this.subject.store.leases.claim({ claim, leaseMs, recover })
    this.keep(op.key, claim, claimed)
    await pause()
    return this.teller.shown(claim, view, claimed, view.record)
  }

  async takeOver(key: number): Promise<unknown> {
    const claim = this.keys.claim(key)
    const { record: seen } = await this.subject.store.read({ id: claim.id })
    if (seen === null) return null
    const taken = await this.subject.store.leases.takeOver({ ...leaseOf(claim), seen })
    this.keep(key, claim, taken)
    return this.teller.won(taken, claim)
  }

  play(op: Extract<Op, { key: number; back: number }>): Promise<unknown> | null {
    const of = this.held.get(op.key)?.at(-1 - op.back)
    if (of === undefined) return null
    const { leases } = this.subject.store
    const { claim, claimed } = of
    const held = { id: claim.id, token: claimed.token }
    const step = { ...held, life: claimed.life, name: 'call' }
    switch (op.do) {
      case 'release':
        return leases.release(held)
      case 'suspend':
        return leases.suspend(held)
      case 'refuseLease':
        return this.refuse(claim, held)
      case 'startStep':
        return leases.startStep(step)
      case 'finishStep':
        return leases.finishStep({ ...step, result: '1' })
      case 'steps':
        return leases.steps({ id: claim.id, life: claimed.life })
      default:
        return this.commit(claim, claimed, op.do === 'stepTx' ? { ...step, result: '2' } : null)
    }
  }

  settle({ key, verdict }: Extract<Op, { do: 'settle' }>): Promise<boolean> {
    const claim = this.keys.claim(key)
    const { leases } = this.subject.store
    if (verdict === 'failed')
      return leases.settle({ claim, verdict: { kind: verdict, answer: this.keys.nextAnswer() } })
    if (verdict === 'done') return leases.settle({ claim, verdict: { kind: verdict, step: 'call', result: '3' } })
    return leases.settle({ claim, verdict: { kind: verdict, step: 'call' } })
  }

  async heartbeat(): Promise<unknown> {
    const newest = [...this.held.values()].flatMap((of) => of.slice(-1))
    const leases = newest.map(({ claim, claimed }) => ({ id: claim.id, token: claimed.token }))
    return this.keys.mine([...(await this.subject.store.leases.heartbeat({ leases, leaseMs: LEASE_MS }))])
  }

  private async refuse(claim: Claim, held: { id: string; token: string }): Promise<boolean> {
    const done = await this.subject.store.leases.finish({ ...held, claim, answer: this.keys.nextAnswer() })
    await pause()
    return done
  }

  private async commit(
    claim: Claim,
    claimed: Claimed,
    step: Parameters<SqlSession<unknown>['completeStep']>[0] | null,
  ): Promise<unknown> {
    const session = await this.subject.store.open({ deadlineMs: DEADLINE_MS })
    try {
      await this.subject.effect(session.tx, this.keys.keyOf(claim))
      if (step !== null) return await session.completeStep(step)
      return await session.complete({ ...completing(claim, claimed, '', true), answer: this.keys.nextAnswer() })
    } catch (error) {
      await session.rollback()
      throw error
    } finally {
      await pause()
    }
  }

  private keep(key: number, claim: Claim, claimed: Claimed | null): void {
    if (claimed !== null) this.held.set(key, [...(this.held.get(key) ?? []), { claim, claimed }])
  }
}
