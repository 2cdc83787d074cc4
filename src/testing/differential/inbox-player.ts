import { isOnceError } from '../../errors.ts'
import { messageIdentity } from '../../consumer/inbox/identity.ts'
import type { LetterFilter, NewLetter } from '../../store/dead-letters.ts'
import type { Inbox, InboxItem, InboxState, Taken } from '../../store/inbox.ts'
import { letterOf } from '../contract/inbox-make.ts'
import { DEADLINE_MS, LONG_MS } from '../contract/make.ts'
import type { SqlSubject } from '../contract/subject.ts'
import { MESSAGES } from './inbox-script.ts'
import type { InboxOp, MessageFilter } from './inbox-script.ts'
import { InboxTeller } from './inbox-teller.ts'
import { RedrivePlayer } from './redrive-player.ts'

interface Actor {
  readonly taken: Taken<unknown>
  readonly redrive: boolean
  readonly messages: readonly number[]
}

const SOURCE = 'shop'

/** Plays a script about messages on one store and reports the results. */
export class InboxPlayer {
  private readonly subject: SqlSubject
  private readonly inbox: Inbox<unknown>
  private readonly consumer: string
  private readonly teller: InboxTeller
  private readonly redrives: RedrivePlayer
  private readonly items: readonly InboxItem[]
  private readonly actors = new Map<number, Actor>()

  constructor(subject: SqlSubject, consumer: string) {
    this.subject = subject
    this.inbox = subject.store.inbox
    this.consumer = consumer
    this.items = Array.from({ length: MESSAGES }, (_, n) => itemOf(consumer, n))
    this.teller = new InboxTeller(this.items)
    this.redrives = new RedrivePlayer(subject, consumer, this.items, this.teller)
  }

  async open(): Promise<void> {
    const times = { inboxForMs: LONG_MS, rememberForMs: LONG_MS * 2, lettersForMs: LONG_MS }
    await this.inbox.open({ consumer: this.consumer, ...times })
  }

  async play(op: InboxOp): Promise<unknown> {
    try {
      return (await this.perform(op)) ?? 'nothing'
    } catch (error) {
      return { error: isOnceError(error) ? error.code : 'raw' }
    }
  }

  /** Ends every open transaction, so that waiting calls can continue. */
  async letGo(): Promise<void> {
    for (const [name, { taken }] of this.actors) {
      this.actors.delete(name)
      await taken.session.rollback()
    }
  }

  /** The committed state at the end. */
  async state(): Promise<unknown> {
    const { consumer, inbox, items } = this
    return {
      states: await inbox.look({ consumer, items }),
      redriven: await inbox.look({ consumer, items, redrive: true }),
      tries: this.teller.tries(await inbox.tries({ consumer, ids: items.map(({ id }) => id) })),
      letters: (await inbox.letters.list({ filter: { consumer }, limit: 100 })).map((of) => this.teller.letter(of)),
      positions: (await inbox.positions({ consumer, source: SOURCE })).toSorted(byPartition),
      effects: await Promise.all(items.map(({ message }) => this.subject.effects(`${consumer} ${message}`))),
      redrives: await this.redrives.state(),
    }
  }

  private perform(op: InboxOp): Promise<unknown> | null {
    const { inbox, consumer } = this
    switch (op.do) {
      case 'take':
        return this.take(op.actor, op)
      case 'complete':
        return this.complete(op)
      case 'rollback':
        return this.rollback(op.actor)
      case 'apply':
        return this.apply(op)
      case 'look':
        return inbox.look({ consumer, items: this.of(op.messages), redrive: op.redrive })
      case 'enter':
        return this.enter(this.items[op.message]!)
      case 'trying':
      case 'tries':
        return inbox[op.do]({ consumer, ids: this.idsOf([op.message]) }).then((all) => this.teller.tries(all))
      case 'untry':
        return inbox.untry({ consumer, ids: this.idsOf([op.message]) }).then(() => 'taken back')
      case 'failed':
        return this.failed(op)
      case 'park':
        return inbox
          .park({ consumer, letters: [this.letter(op)], positions: null, deadlineMs: DEADLINE_MS })
          .then((busy) => (busy.length > 0 ? 'busy' : 'parked'))
      case 'pass': {
        const witnesses = op.witness === null ? [] : this.idsOf([op.witness])
        const positions = [{ partition: String(op.partition), next: String(op.next), witnesses }]
        return inbox.pass({ consumer, source: SOURCE, positions }).then(() => 'passed')
      }
      case 'positions':
        return inbox.positions({ consumer, source: SOURCE }).then((all) => all.toSorted(byPartition))
      case 'getLetter':
        return inbox.letters.get({ id: this.items[op.message]!.id }).then((of) => of && this.teller.letter(of))
      case 'list':
        return inbox.letters
          .list({ filter: this.filter(op), limit: 100 })
          .then((all) => all.map((of) => this.teller.letter(of)))
      case 'count':
        return inbox.letters.count({ filter: this.filter(op) }).then((counts) => this.teller.counts(counts))
      case 'discard':
        return inbox.letters.discard({ filter: this.filter(op), limit: op.limit })
      default:
        return this.redrives.play(op, (of) => this.filter(of))
    }
  }

  private async take(actor: number, op: { messages: readonly number[]; redrive: boolean }): Promise<unknown> {
    if (this.actors.has(actor)) return null
    const { messages, redrive } = op
    const params = { consumer: this.consumer, items: this.of(messages), deadlineMs: DEADLINE_MS, redrive }
    const before = await this.inbox.look(params)
    const taken = await this.inbox.take(params)
    const states = settled(taken.states, before)
    this.actors.set(actor, { taken, redrive, messages })
    await this.effects(taken, messages)
    return states
  }

  private async complete(op: { actor: number; tried: boolean; settles: boolean }): Promise<unknown> {
    const actor = this.actors.get(op.actor)
    if (actor === undefined) return null
    this.actors.delete(op.actor)
    return this.end(actor, op)
  }

  private async rollback(name: number): Promise<unknown> {
    const actor = this.actors.get(name)
    if (actor === undefined) return null
    this.actors.delete(name)
    await actor.taken.session.rollback()
    return 'rolled back'
  }

  /** Takes and completes messages in one call. A store with one writer cannot do more. */
  private async apply(op: { messages: readonly number[]; redrive: boolean; settles: boolean }): Promise<unknown> {
    const { messages, redrive, settles } = op
    const params = { consumer: this.consumer, items: this.of(messages), deadlineMs: DEADLINE_MS, redrive }
    const before = await this.inbox.look(params)
    const taken = await this.inbox.take(params)
    await this.effects(taken, messages)
    return [settled(taken.states, before), await this.end({ taken, redrive, messages }, { tried: true, settles })]
  }

  private async effects({ states, session }: Taken<unknown>, messages: readonly number[]): Promise<void> {
    for (const message of messages.filter((_, i) => states[i] === 'taken'))
      await this.subject.effect(session.session.tx, `${this.consumer} m${message}`)
  }

  private async end(actor: Actor, { tried, settles }: { tried: boolean; settles: boolean }): Promise<unknown> {
    const { session, states } = actor.taken
    const mine = actor.messages.filter((_, i) => isTaken(states[i]))
    try {
      // A letter is settled together with its effect, or neither is committed.
      const settled = settles || actor.redrive ? await this.redrives.settle(session.session, mine) : null
      if (settled === false || (settled === null && actor.redrive && mine.length > 0)) {
        await session.rollback()
        return 'not settled'
      }
      const ids = this.idsOf(mine)
      const params = { consumer: this.consumer, events: [], tried: tried ? ids : [], positions: null }
      return [settled, await session.complete(params)]
    } catch (error) {
      await session.rollback()
      throw error
    }
  }

  private async enter(item: InboxItem): Promise<unknown> {
    const { inbox, consumer } = this
    const { session } = await inbox.take({ consumer, items: [], deadlineMs: DEADLINE_MS })
    const entered = await inbox.enter(session.session, { consumer, item })
    if (!entered) await session.rollback()
    else await session.complete({ consumer, events: [], tried: [], positions: null })
    return entered
  }

  private async failed({ message, counted }: { message: number; counted: boolean }): Promise<unknown> {
    const failure = { id: this.items[message]!.id, counted, error: `no ${message}`, fingerprint: `f${message % 2}` }
    return this.teller.tries(await this.inbox.failed({ consumer: this.consumer, failures: [failure] }))
  }

  private letter({ message, skip, reason }: Extract<InboxOp, { do: 'park' }>): NewLetter {
    const state = skip ? 'skipped' : 'parked'
    return letterOf(this.items[message]!, { state, reason, error: `no ${message}`, fingerprint: `f${message % 2}` })
  }

  private filter({ filter, message }: { filter: MessageFilter; message: number }): LetterFilter & { consumer: string } {
    const { consumer } = this
    const { id, aggregate } = this.items[message]!
    if (filter === 'one') return { consumer, ids: [id] }
    if (filter === 'reason') return { consumer, reason: 'failed', states: ['parked', 'skipped'] }
    return filter === 'aggregate' && aggregate !== null ? { consumer, aggregate } : { consumer, states: ['parked'] }
  }

  /** Drops `previous` where the predecessor is in the same batch, because the batch takes both or neither. */
  private of(messages: readonly number[]): InboxItem[] {
    const batch = messages.map((message) => this.items[message]!)
    const here = new Set(batch.map(({ id }) => id))
    return batch.map((item) => (here.has(item.previous ?? '') ? { ...item, previous: null } : item))
  }

  private idsOf(messages: readonly number[]): string[] {
    return this.of(messages).map(({ id }) => id)
  }
}

/** Two messages without an aggregate, a chain of three, and two messages of one aggregate without a chain. */
function itemOf(consumer: string, n: number): InboxItem {
  const message = `m${n}`
  const previous = n === 3 || n === 4 ? messageIdentity({ consumer, source: SOURCE, message: `m${n - 1}` }).id : null
  const aggregate = n < 2 ? null : n < 5 ? 'chain' : 'line'
  return { ...messageIdentity({ consumer, source: SOURCE, message }), source: SOURCE, message, aggregate, previous }
}

/** A message that was applied and also has a letter is settled in either case. Each store may report either state. */
function settled(states: readonly InboxState[], before: readonly InboxState[]): InboxState[] {
  return states.map((state, i) => (state === 'parked' && before[i] === 'duplicate' ? 'duplicate' : state))
}

function isTaken(state: InboxState | undefined): boolean {
  return state === 'taken'
}

function byPartition(a: { partition: string }, b: { partition: string }): number {
  return Number(a.partition) - Number(b.partition)
}
