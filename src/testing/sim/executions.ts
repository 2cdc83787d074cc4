import type { RecordRow } from '../../store/memory/database/rows.ts'
import type { Transaction } from '../../store/memory/database/transaction.ts'
import { isFinal } from '../../operation/final.ts'
import type { RawNote } from './observed.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

interface Execution {
  readonly exec: number
  readonly plan: Plan
  readonly process: SimProcess
  /** The transaction that carries the claim, or null for a leased handler. */
  readonly tx: Transaction | null
  /** The token and the life of the lease, where they are known. */
  readonly token: number | null
  readonly life: number | null
}

/**
 * The running handlers, and whether each of them still holds its claim. The answer comes from the database, not from
 * the process.
 */
export class Executions {
  private readonly world: World
  private readonly running = new Map<number, Execution>()
  private readonly happened = new Map<string, number>()
  /**
   * The attempts that were ever committed as in progress, by identity. Each attempt has the set of lives of its key.
   */
  private readonly attempts = new Map<string, Map<number, Set<number>>>()
  private serial = 0

  constructor(world: World) {
    this.world = world
  }

  next(): number {
    return ++this.serial
  }

  start(of: {
    readonly plan: Plan
    readonly call: number
    readonly inner: number | null
    readonly process: SimProcess
    readonly attempt: number
    readonly tx: Transaction | null
  }): number {
    const { plan, call, inner, process, attempt, tx } = of
    const exec = this.next()
    const record = this.world.record(plan.id)
    const leased = plan.mode === 'leased'
    const holds = leased ? this.attempts.get(plan.id)?.has(attempt) === true : tx !== null && this.claimed(plan, tx)
    const own = leased && record?.attempt === attempt && !this.isEarlier(plan, record) ? record : null
    const lost = leased ? own === null : tx?.ended === true
    const rivals = lost ? 0 : this.rivals(plan)
    this.running.set(exec, { exec, plan, process, tx, token: own?.token ?? null, life: own?.life ?? null })
    const mode = leased ? 'leased' : 'atomic'
    this.world.note({
      kind: 'run',
      exec,
      process: process.name,
      call,
      key: plan.key,
      mode,
      inner,
      attempt,
      holds,
      lost,
      rivals,
      record,
    })
    return exec
  }

  async watch<T>(exec: number, work: () => Promise<T>): Promise<T> {
    try {
      const value = await work()
      this.end(exec, 'returned')
      return value
    } catch (error) {
      this.end(exec, isFinal(error) ? 'refused' : 'threw')
      throw error
    }
  }

  /** The first executions of some plans fail. */
  failing(plan: Plan): boolean {
    return this.isAmong(plan.key, plan.failures)
  }

  /** Whether this is one of the first `times` calls for this name. */
  isAmong(what: string, times: number): boolean {
    if (times === 0) return false
    const before = this.happened.get(what) ?? 0
    if (before >= times) return false
    this.happened.set(what, before + 1)
    return true
  }

  committed(row: RecordRow): void {
    if (row.state !== 'inProgress') return
    const known = this.attempts.get(row.id) ?? new Map<number, Set<number>>()
    this.attempts.set(row.id, known.set(row.attempt, (known.get(row.attempt) ?? new Set()).add(row.life)))
  }

  lifeOf(exec: number): number | null {
    return this.running.get(exec)?.life ?? null
  }

  tokenOf(exec: number): number | null {
    return this.running.get(exec)?.token ?? null
  }

  /** Whether a live process runs a handler of this key, with or without a valid claim. */
  isRunning(plan: Plan): boolean {
    for (const { plan: of, process } of this.running.values()) if (of === plan && process.alive) return true
    return false
  }

  /**
   * Each life of a key counts its attempts anew. If another handler has this token, this handler belongs to an earlier
   * life.
   */
  private isEarlier({ id }: Plan, { attempt, token }: RecordRow): boolean {
    const lives = this.attempts.get(id)?.get(attempt)?.size ?? 0
    return lives > 1 && [...this.running.values()].some((of) => of.plan.id === id && of.token === token)
  }

  /** Whether the transaction holds the record, or held it until the transaction ended. */
  private claimed(plan: Plan, tx: Transaction): boolean {
    if (this.world.database.records.slots.get(plan.id)?.holder === tx) return true
    return tx.ended && (tx.notes as readonly RawNote[]).some(({ id }) => id === plan.id)
  }

  private end(exec: number, how: 'returned' | 'threw' | 'refused'): void {
    this.running.delete(exec)
    this.world.note({ kind: 'ran', exec, how })
  }

  private rivals(plan: Plan): number {
    const { database } = this.world
    const record = this.world.record(plan.id)
    let rivals = 0
    for (const { plan: of, process, tx, token } of this.running.values()) {
      if (of.id !== plan.id || !process.alive) continue
      if (tx !== null) rivals += !tx.ended && database.records.slots.get(plan.id)?.holder === tx ? 1 : 0
      else if (record !== null && record.token === token && record.state === 'inProgress') {
        rivals += (record.leaseUntil ?? 0) > database.now() ? 1 : 0
      }
    }
    return rivals
  }
}
