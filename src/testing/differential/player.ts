import { isOnceError } from '../../errors.ts'
import type { ClaimView, StoredRecord } from '../../lifecycle/record.ts'
import type { Claim, Claimed, Savepoint, SqlSession } from '../../store/store.ts'
import { completing, DEADLINE_MS, LONG_MS, textOf } from '../contract/make.ts'
import type { SqlSubject } from '../contract/subject.ts'
import { Keys, pause } from './keys.ts'
import { LeasePlayer } from './lease-player.ts'
import { KEYS } from './script.ts'
import { DEFERRED } from './subjects.ts'
import type { Op } from './script.ts'
import { Teller } from './teller.ts'

interface Actor {
  readonly session: SqlSession<unknown>
  readonly claim: Claim
  claimed: Claimed | null
  record: StoredRecord | null
  readonly savepoints: Savepoint[]
}

/** Plays a script on one store and reports the results. */
export class Player {
  private readonly subject: SqlSubject
  private readonly keys: Keys
  private readonly leases: LeasePlayer
  private readonly teller = new Teller()
  private readonly actors = new Map<number, Actor>()

  constructor(subject: SqlSubject, prefix: string) {
    this.subject = subject
    this.keys = new Keys(prefix)
    this.leases = new LeasePlayer(subject, this.keys, this.teller)
  }

  async play(op: Op): Promise<unknown> {
    try {
      return (await this.perform(op)) ?? 'nothing'
    } catch (error) {
      return { error: isOnceError(error) ? error.code : 'raw' }
    }
  }

  /** Ends every open transaction, so that waiting calls can continue. */
  async letGo(): Promise<void> {
    for (const [name, { session }] of this.actors) {
      this.actors.delete(name)
      await session.rollback()
    }
  }

  /** The committed state at the end. */
  async state(): Promise<unknown> {
    const all: unknown[] = []
    for (let key = 0; key < KEYS; key++) {
      const claim = this.keys.claim(key)
      const { record, answer } = await this.subject.store.read({ id: claim.id })
      const effects = await this.subject.effects(this.keys.key(key))
      all.push({ record: this.teller.seen(record, claim), answer: textOf(answer), effects })
    }
    return all
  }

  private perform(op: Op): Promise<unknown> | null {
    const { store } = this.subject
    switch (op.do) {
      case 'begin':
        return this.begin(op)
      case 'read':
        return this.read(this.keys.claim(op.key))
      case 'refuse':
        return this.refuse(this.keys.claim(op.key, op.input))
      case 'lease':
        return this.leases.lease(op)
      case 'takeOver':
        return this.leases.takeOver(op.key)
      case 'settle':
        return this.leases.settle(op)
      case 'heartbeat':
        return this.leases.heartbeat()
      case 'batch':
        return this.batch(op)
      case 'sweep':
        // The number of swept rows is left out, because the database also holds rows of other scripts.
        return store.retention.sweep({ limit: 1_000, replayForMs: LONG_MS }).then(() => 'swept')
      case 'lapsed':
        return store.leases.lapsed({ limit: 10, namespace: this.keys.prefix }).then((found) => found.length)
      case 'unknown':
        return store.leases.unknown({ limit: 1_000 }).then((found) => this.keys.mine(found.map(({ id }) => id)))
      default:
        return 'actor' in op ? this.byActor(op) : this.leases.play(op)
    }
  }

  private async begin(op: Extract<Op, { do: 'begin' }>): Promise<unknown> {
    if (this.actors.has(op.actor)) return null
    const claim = this.keys.claim(op.key, op.input, op.short)
    const { session, view, claimed } = await this.subject.store.begin({ claim, deadlineMs: DEADLINE_MS })
    const actor: Actor = { session, claim, claimed, record: null, savepoints: [] }
    this.actors.set(op.actor, actor)
    if (op.short) await pause()
    actor.record = await believed(session, claim, view)
    return this.teller.shown(claim, view, claimed, actor.record)
  }

  private async read(claim: Claim): Promise<unknown> {
    const { record, answer } = await this.subject.store.read({ id: claim.id })
    return [this.teller.seen(record, claim), textOf(answer)]
  }

  private async refuse(claim: Claim): Promise<unknown> {
    return (await this.subject.store.refuse({ claim, answer: this.keys.nextAnswer() })).inserted
  }

  private byActor(op: Extract<Op, { actor: number }>): Promise<unknown> | null {
    const actor = this.actors.get(op.actor)
    if (actor === undefined) return null
    const { session, claim, claimed } = actor
    switch (op.do) {
      case 'reread':
        return session.reread(claim).then((record) => this.teller.seen((actor.record = record), claim))
      case 'renew':
        if (actor.record === null || claimed !== null) return null
        return session.renew(claim, actor.record).then((won) => this.teller.won((actor.claimed = won), claim))
      case 'effect':
        return this.subject.effect(session.tx, this.keys.keyOf(claim)).then(() => 'done')
      case 'savepoint':
        return session.savepoint().then((savepoint) => String(actor.savepoints.push(savepoint)))
      case 'rollbackTo':
        return (
          actor.savepoints
            .at(-1 - op.back)
            ?.rollback()
            .then(() => 'undone') ?? null
        )
      case 'releaseSavepoint':
        return (
          actor.savepoints
            .at(-1 - op.back)
            ?.release()
            .then(() => 'released') ?? null
        )
      case 'raise':
        return this.subject.fail!(session.tx).then(() => 'raised')
      case 'deferRaise':
        return this.subject.effect(session.tx, DEFERRED).then(() => 'done')
      case 'together':
        return this.together(actor, op.with)
      case 'claimInside':
        return this.claimInside(session, this.keys.claim(op.key, op.input))
      case 'complete':
        if (claimed === null) return null
        this.actors.delete(op.actor)
        return session.complete({ ...completing(claim, claimed, ''), answer: this.keys.nextAnswer() })
      default:
        this.actors.delete(op.actor)
        return session.rollback().then(() => 'rolled back')
    }
  }

  private together({ session, claim, savepoints }: Actor, other: 'savepoint' | 'raise'): Promise<unknown> {
    const second = other === 'raise' ? this.subject.fail!(session.tx) : session.savepoint()
    const effect = this.subject.effect(session.tx, this.keys.keyOf(claim))
    return Promise.allSettled([second, effect]).then(([first, last]) => {
      if (first.status === 'fulfilled' && first.value) savepoints.push(first.value)
      return [first.status, last.status]
    })
  }

  private async claimInside(session: SqlSession<unknown>, claim: Claim): Promise<unknown> {
    const { view, claimed } = await session.claim(claim)
    if (claimed !== null) {
      await session.completeInside({ ...completing(claim, claimed, ''), answer: this.keys.nextAnswer() })
    }
    return this.teller.shown(claim, view, claimed, await believed(session, claim, view))
  }

  private async batch({ input, rerun }: Extract<Op, { do: 'batch' }>): Promise<unknown> {
    const claims = Array.from({ length: KEYS }, (_, key) => this.keys.claim(key, input))
    claims.sort((a, b) => (a.id < b.id ? -1 : 1))
    const { session, won } = await this.subject.store.batches.open({ claims, deadlineMs: DEADLINE_MS, rerun })
    const winners = claims.filter(({ id }) => won.has(id))
    if (winners.length === 0) {
      await session.rollback()
      return 'nobody won'
    }
    const effects = await session.effects(winners.map((claim) => this.subject.statement!(this.keys.keyOf(claim))))
    const items = winners.map((claim) => ({
      claim,
      claimed: won.get(claim.id)!,
      answer: this.keys.nextAnswer(),
      events: [],
    }))
    return [this.keys.mine([...won.keys()]), effects.kind, await session.complete(items)]
  }
}

async function believed(session: SqlSession<unknown>, claim: Claim, view: ClaimView): Promise<StoredRecord | null> {
  return view.inserted || view.record !== null || view.reread ? view.record : session.reread(claim)
}
