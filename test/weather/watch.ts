import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Crew, Member } from './crew.ts'
import type { Database } from './database.ts'
import type { Hook } from './hook.ts'
import { explain } from './explain.ts'
import { isSilent, pending, type Pending } from './verifier.ts'
import type { Violation } from './violations.ts'

/** All work that existed when the faults ended must be done within this time. */
export const BOUND_MS = 60_000
/** A process that makes no progress for this long, while there is work, must have reported why. */
const SILENT_MS = 40_000
const LOOK_MS = 1_000
/** Publishing must work this soon after the database is available again. */
const PUBLISH_MS = 5_000
/** A transaction that began before a check may commit after it. */
const OVERLAP_MS = 15_000

/** Watches whether every process makes progress, and whether a process without progress reports why. */
export class Watch {
  stuck = 0
  silent = 0
  /** The violations of processes that are stuck or silent. */
  readonly violations: Violation[] = []
  /** The events that asynchronous promotions dropped. */
  readonly dropped = new Set<string>()
  /** How long it took until publishing worked again, for each recovery of the database. */
  readonly publishMs: number[] = []
  readonly #database: Database
  readonly #crew: Crew
  readonly #hook: Hook
  readonly #tell: (line: string) => void
  readonly #ending = new AbortController()
  readonly #silent = new Set<Member>()
  readonly #known = new Set<string>()
  #since = new Date(0)

  constructor(params: { database: Database; crew: Crew; hook: Hook; tell: (line: string) => void }) {
    this.#database = params.database
    this.#crew = params.crew
    this.#hook = params.hook
    this.#tell = params.tell
  }

  begin(): void {
    void this.#lookForSilence()
  }

  /** Stops the check for silent processes. */
  end(): void {
    this.#ending.abort()
  }

  /**
   * Checks that all current work is done within the bound. With `type`, effects are checked only for that event type.
   */
  async recovers(after: string, type?: string): Promise<boolean> {
    const until = new Date()
    const deadline = performance.now() + BOUND_MS
    let left: Pending = { effects: [], calls: [] }
    while (performance.now() < deadline) {
      left = await this.left(until, type)
      if (left.effects.length + left.calls.length === 0) {
        this.#since = new Date(until.getTime() - OVERLAP_MS)
        return true
      }
      await sleep(LOOK_MS)
    }
    await this.#count(left, after)
    return false
  }

  async left(until: Date, type?: string): Promise<Pending> {
    const orders = { since: this.#since, until, ...(type === undefined ? {} : { type }) }
    return pending((text, values) => this.#rows(text, values), this.#hook.first, orders)
  }

  /** The next order must commit within seconds. */
  async publishes(): Promise<void> {
    const from = performance.now()
    const count = async (): Promise<number> => Number((await this.#rows('select count(*) as n from orders'))[0]?.['n'])
    const before = await count()
    let told = false
    while ((await count()) === before && performance.now() - from < BOUND_MS) {
      if (!told && performance.now() - from > PUBLISH_MS) {
        told = true
        const reasons = this.#crew.of('producer').map(({ post, last }) => `${post.name}: ${last}`)
        this.isStuck(`nothing was published ${PUBLISH_MS} ms after the database served (${reasons.join('; ')})`)
      }
      await sleep(100)
    }
    this.publishMs.push(performance.now() - from)
  }

  /**
   * Returns how many events of other aggregates are older than `ms` and were not sent to the hook. It reports where
   * they are.
   */
  async overdue(ms: number, exceptAggregate: string): Promise<number> {
    const { calls } = await this.left(new Date(Date.now() - ms))
    const text = 'select event from orders where event = any($1::uuid[]) and aggregate <> $2'
    const events = (await this.#rows<{ event: string }>(text, [calls, exceptAggregate])).map(({ event }) => event)
    if (events.length > 0) await this.#explain(events)
    return events.length
  }

  isStuck(line: string): void {
    this.stuck++
    this.#name('stuck', line)
    this.#tell(`STUCK: ${line}`)
  }

  async #rows<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    const deadline = performance.now() + BOUND_MS
    for (;;) {
      try {
        return await this.#database.primary.rows<R>(text, values)
      } catch (error) {
        if (performance.now() > deadline) throw error
        await sleep(200)
      }
    }
  }

  /** An event counts once, however long it is stuck. */
  async #count({ effects, calls }: Pending, after: string): Promise<void> {
    const fresh = [...new Set([...effects, ...calls])].filter((event) => !this.#known.has(event))
    for (const event of fresh) this.#known.add(event)
    this.stuck += fresh.length
    const which = `after ${after}, e.g. ${fresh.slice(0, 3).join(', ')}`
    this.#name('stuck', `${effects.length} effects, ${calls.length} calls`, which)
    this.#tell(`STUCK after ${after}: ${effects.length} effects, ${calls.length} calls missing; ${fresh.length} new`)
    if (fresh.length > 0) await this.#explain(fresh)
  }

  async #explain(events: readonly string[]): Promise<void> {
    const lines = await explain((text, values) => this.#rows(text, values), events, this.dropped)
    for (const line of lines) this.#tell(line)
    for (const { post, progressedAt, toldAt, last } of this.#crew.members) {
      const ago = (at: number): string => (at > 0 ? `${((performance.now() - at) / 1_000).toFixed(0)} s ago` : 'never')
      this.#tell(`  ${post.name}: progress ${ago(progressedAt)}, told ${ago(toldAt)}: ${last}`)
    }
  }

  async #lookForSilence(): Promise<void> {
    const { signal } = this.#ending
    while (!signal.aborted) {
      const now = performance.now()
      for (const member of this.#crew.members) {
        if (member.isHeld || member.hasEnded) continue
        // While a producer publishes, every process has work.
        const others = [...this.#crew.of(member.post.role), ...this.#crew.of('producer')]
        if (isSilent(member, others, now, SILENT_MS)) this.#countSilent(member)
      }
      await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
    }
  }

  #countSilent(member: Member): void {
    if (this.#silent.has(member)) return
    this.#silent.add(member)
    this.isSilent(member.post.name, `makes no progress and says nothing (${member.last || 'no word at all'})`)
  }

  isSilent(who: string, what: string): void {
    this.silent++
    this.#name('silent', who, what)
    this.#tell(`SILENT: ${who}: ${what}`)
  }

  #name(kind: 'stuck' | 'silent', where: string, ...seen: string[]): void {
    this.violations.push({ kind, where, at: Date.now(), seen })
  }
}
