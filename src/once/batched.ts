import { onceError } from '../errors.ts'
import { BATCH_QUEUE_MAX, BATCH_REQUESTS_MAX, BATCH_SCOPE_SHARE, BATCHES_IN_FLIGHT_MAX, RERUNS_MAX } from '../limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Batches, Claimed, EventRow, Row, UserStatement } from '../store/store.ts'
import { capped, checkHeld, isTransient, publisherOf } from './atomic.ts'
import { answerOfFinal, answerOfValue } from './codec.ts'
import type { Core } from './core.ts'
import { replayed } from './execute.ts'
import { isFinal } from './final.ts'
import type { Publisher } from '../outbox/publisher.ts'
import { refusalOf, replayOf, type Attempt } from './outcome.ts'
import type { Request } from './request.ts'
import { remember } from './settle-claim.ts'

/** One waiting request of a batched route. */
export interface Item {
  readonly request: Request
  readonly statement: UserStatement
  respond(rows: readonly Row[], publisher: Publisher): unknown
  resolve(attempt: Attempt): void
  reject(error: unknown): void
  tries: number
}

interface Won extends Item {
  readonly claimed: Claimed
}

interface Ready {
  readonly item: Won
  readonly answer: Answer
  readonly events: readonly EventRow[]
}

/**
 * Batched mode: requests that wait together share one transaction and one fsync, each with its own claim and its own
 * effect statement, in order, so checks, updates and duplicates behave as in sequence. No timer: whenever fewer than two
 * batches are under way, what waits is flushed.
 */
export class Batcher<Tx> {
  readonly #core: Core<Tx>
  readonly #batches: Batches
  readonly #max: number
  #limit: number | null = null
  #waiting: Item[] = []
  #underWay = 0
  #scheduled = false

  constructor(core: Core<Tx>, batches: Batches, max: number) {
    this.#core = core
    this.#batches = batches
    this.#max = Math.min(max, BATCH_REQUESTS_MAX)
  }

  add(item: Omit<Item, 'resolve' | 'reject' | 'tries'>): Promise<Attempt> {
    if (this.#waiting.length >= BATCH_QUEUE_MAX) return Promise.reject(onceError('ONCE_QUEUE_FULL'))
    return new Promise<Attempt>((resolve, reject) => {
      this.#waiting.push({ ...item, resolve, reject, tries: 0 })
      this.#schedule()
    })
  }

  /** One turn later, so that callers of the same turn meet in one batch. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay >= BATCHES_IN_FLIGHT_MAX || this.#waiting.length === 0) return
    this.#scheduled = true
    queueMicrotask(() => {
      this.#scheduled = false
      if (this.#underWay >= BATCHES_IN_FLIGHT_MAX || this.#waiting.length === 0) return
      this.#underWay++
      void this.#flush().finally(() => {
        this.#underWay--
        this.#schedule()
      })
      this.#schedule()
    })
  }

  async #flush(): Promise<void> {
    try {
      this.#limit ??= Math.min(this.#max, await this.#batches.limit())
    } catch (error) {
      for (const item of this.#take(this.#max)) item.reject(error)
      return
    }
    const rounds: (readonly Item[])[] = [this.#take(this.#limit)]
    for (let items = rounds.pop(); items; items = rounds.pop()) {
      try {
        const again = await this.#run(items)
        if (again.length > 0) rounds.push(again)
      } catch (error) {
        if (items.length > 1 && this.#batches.isCrowded?.(error)) rounds.push(...this.#halved(items, error))
        else for (const item of items) item.reject(error)
      }
    }
  }

  /** The server has no room for so many locks: smaller batches from now on. */
  #halved(items: readonly Item[], error: unknown): (readonly Item[])[] {
    const half = Math.ceil(items.length / 2)
    this.#limit = Math.min(this.#limit ?? half, half)
    this.#core.settings.observe({ kind: 'troubled', task: 'batch', error })
    return [items.slice(half), items.slice(0, half)]
  }

  /** One request per identity is the caller's doing; no scope takes more than its share while others wait. */
  #take(limit: number): Item[] {
    if (this.#waiting.length <= limit) {
      const all = this.#waiting
      this.#waiting = []
      return all
    }
    const share = Math.max(1, Math.ceil(limit / BATCH_SCOPE_SHARE))
    const perScope = new Map<string, number>()
    const taken: Item[] = []
    const left: Item[] = []
    for (const item of this.#waiting) {
      const used = perScope.get(item.request.claim.scope) ?? 0
      if (taken.length >= limit || used >= share) left.push(item)
      else {
        perScope.set(item.request.claim.scope, used + 1)
        taken.push(item)
      }
    }
    // Nobody else waits: the rest of the batch is free for all.
    taken.push(...left.splice(0, limit - taken.length))
    this.#waiting = left
    return taken
  }

  /** One transaction. Returns those who must be run again, without the one that made it fail. */
  async #run(items: readonly Item[]): Promise<Item[]> {
    const sorted = items.toSorted((a, b) => (a.request.claim.id < b.request.claim.id ? -1 : 1))
    const { session, won } = await this.#open(sorted)
    const winners: Won[] = []
    for (const item of sorted) {
      const claimed = won.get(item.request.claim.id)
      if (claimed) winners.push(Object.assign(item, { claimed }))
      else void this.#answerLoser(item)
    }
    if (winners.length === 0) {
      await session.rollback()
      return []
    }
    const effects = await session.effects(winners.map((item) => item.statement))
    if (effects.kind === 'failed') {
      await session.rollback()
      return this.#without(winners, winners[effects.index] as Won, effects.error)
    }
    const ready: Ready[] = []
    for (const [index, item] of winners.entries()) {
      try {
        ready.push(await this.#ready(item, effects.rows[index] ?? []))
      } catch (error) {
        await session.rollback()
        return this.#without(winners, item, error)
      }
    }
    const ending = await session.complete(
      ready.map(({ item, answer, events }) => ({
        claim: item.request.claim,
        claimed: item.claimed,
        answer: capped(answer),
        events,
      })),
    )
    if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
    for (const { item, answer } of ready) this.#answer(item, answer)
    this.#core.settings.observe({ kind: 'batch', size: items.length, won: winners.length, failed: 0 })
    return []
  }

  #open(sorted: readonly Item[]): ReturnType<Batches['open']> {
    const [first] = sorted
    return this.#batches.open({
      claims: sorted.map((item) => item.request.claim),
      deadlineMs: first?.request.deadlineMs ?? 0,
      rerun: first?.request.policy.expired === 'rerun',
    })
  }

  async #ready(item: Won, rows: readonly Row[]): Promise<Ready> {
    const publisher = publisherOf(this.#core, item.request, item.claimed)
    const answer = answerOfValue(item.respond(rows, publisher))
    checkHeld(answer)
    return { item, answer, events: await publisher.take() }
  }

  #answer(item: Item, answer: Answer): void {
    const outcome = { answer, replayed: false }
    const { kept } = capped(answer)
    if (kept) remember(this.#core, item.request, outcome, item.request.claim.replayForMs)
    item.resolve({ kind: 'outcome', outcome, stored: kept })
  }

  /** The culprit alone gets its error; the others run again at once. */
  #without(items: readonly Won[], culprit: Won, error: unknown): Item[] {
    if (this.#batches.isCrowded?.(error)) throw error
    if (isTransient(this.#core, error) && culprit.tries++ < RERUNS_MAX) return [...items]
    if (isFinal(error)) void this.#refuse(culprit, answerOfFinal(error))
    else culprit.reject(error)
    this.#core.settings.observe({ kind: 'batch', size: items.length, won: items.length, failed: 1 })
    return items.filter((item) => item !== culprit)
  }

  async #refuse(item: Item, answer: Answer): Promise<void> {
    try {
      const stored = capped(answer)
      const sight = await this.#core.store.refuse({ claim: item.request.claim, answer: stored })
      if (sight.inserted) this.#answer(item, answer)
      else await this.#answerLoser(item)
    } catch (error) {
      item.reject(error)
    }
  }

  /** Somebody else has the key: the record says what to answer, and without one it is running. */
  async #answerLoser(item: Item): Promise<void> {
    const { claim, policy } = item.request
    try {
      const { record, answer } = await this.#core.store.read({ id: claim.id })
      const decision = this.#core.decide(
        { inserted: false, sameRunning: true, otherRunning: false, record, reread: true },
        policy,
      )
      if (decision.do === 'replay') {
        const outcome = replayOf(answer)
        remember(this.#core, item.request, outcome, decision.record.expiresInMs)
        replayed(this.#core, item.request, 'database')
        item.resolve({ kind: 'outcome', outcome, stored: true })
      } else if (decision.do === 'inFlight' || decision.do === 'renew' || decision.do === 'takeOver') {
        item.resolve({ kind: 'busy', retryAfterMs: decision.do === 'inFlight' ? decision.retryAfterMs : null })
      } else {
        item.reject(refusalOf(decision))
      }
    } catch (error) {
      item.reject(error)
    }
  }
}
