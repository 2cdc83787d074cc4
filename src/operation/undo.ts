import { isOnceError, onceError, type OnceError } from '../errors.ts'
import { backoffMs } from '../outbox/backoff.ts'
import { shortId } from '../observe/signal.ts'
import { sleep } from '../platform/clock.ts'
import type { StoredStep } from '../store/store.ts'
import { capped, checkHeld } from './atomic.ts'
import type { Core } from './core.ts'
import { childrenEnded, type LazySignal } from './deadline.ts'
import type { Enclosing } from './enclosing.ts'
import { isFinal } from './final.ts'
import type { Finish } from './outcome.ts'
import { isMarkedUndoable, recordedRefusal, refusalName, refusalText, undoName } from './undo-record.ts'
import type { RecordedRefusal } from './undo-record.ts'

/** An attempt tries an undo this often. Then the operation stays abandoned, and the next attempt goes on. */
const UNDO_TRIES_MAX = 3

/** One step with an undo that this attempt has begun. */
interface Begun {
  readonly name: string
  readonly isTransaction: boolean
  /** `none`: the call was not made. `open`: it failed, so the provider may have made it. */
  state: 'running' | 'done' | 'open' | 'none'
  undo?: () => Promise<unknown>
  /** Asks the provider about an open call. True: it was made, and its result is recorded. */
  ask?: (() => Promise<boolean>) | undefined
}

/** A step that has an undo. */
interface Undoable {
  make(): Promise<unknown>
  undo(result: unknown): Promise<unknown>
  /** The step's `reconcile`. */
  ask?: (() => Promise<{ readonly value: unknown } | undefined>) | undefined
  /** It is database work: unless its commit is in doubt, a failure has rolled it back. */
  readonly isTransaction?: boolean
}

interface Holder {
  readonly id: string
  readonly token: string
  readonly life: string
  readonly signal: LazySignal
  readonly enclosing: Enclosing
  isOver(): boolean
  lost(): Error
}

/** How the operation becomes unknown, so that only an operator can continue it. */
export interface Suspension {
  readonly unknown: OnceError | undefined
  suspend(detail: string, cause?: unknown): OnceError
}

/**
 * Undoes the finished steps of a refused operation, in reverse order, before its refusal is stored. The refusal is
 * recorded first. So an attempt that takes over runs the handler only to get its undo functions: no new call is made.
 */
export class Undos<Tx> {
  readonly #core: Core<Tx>
  readonly #holder: Holder
  readonly #recorded: ReadonlyMap<string, StoredStep>
  readonly #suspension: Suspension
  readonly #begun: Begun[] = []
  /** Null: the operation is not refused yet. */
  readonly refusal: RecordedRefusal | null
  /** A call without a recorded result has ended in this undo. A later step of the handler can never have begun. */
  #isPastRecord = false

  constructor(core: Core<Tx>, holder: Holder, recorded: ReadonlyMap<string, StoredStep>, suspension: Suspension) {
    this.#core = core
    this.#holder = holder
    this.#recorded = recorded
    this.#suspension = suspension
    this.refusal = recordedRefusal(recorded.get(refusalName))
  }

  /** Runs a step that has an undo, and remembers how it ended. */
  async around(name: string, { make, undo, ask, isTransaction = false }: Undoable): Promise<unknown> {
    const begun: Begun = { name, isTransaction, state: 'running' }
    this.#begun.push(begun)
    const done = (result: unknown): void => {
      begun.undo = () => undo(result)
      begun.state = 'done'
    }
    begun.ask =
      ask &&
      (async () => {
        const found = await ask()
        if (found) done(found.value)
        return found !== undefined
      })
    try {
      const result = await make()
      done(result)
      return result
    } catch (error) {
      const isRolledBack = isTransaction && !isInDoubt(error)
      begun.state = isRolledBack || isFinal(error) || isOnceError(error, 'ONCE_UNDOING') ? 'none' : 'open'
      throw error
    }
  }

  /**
   * Called before a step without a recorded result makes its call. A refused operation makes no call, with one
   * exception: if an operator refused it, an attempt may have died inside this call. Then `repeat` says that the call is
   * repeated under its key, so that it can be undone.
   */
  checkNew(name: string, repeat: boolean): void {
    if (repeat && this.refusal?.undo === null && !this.#isPastRecord) return
    this.checkMade(name)
  }

  /** A refused operation does not begin what was not made before. */
  checkMade(name: string): void {
    if (!this.refusal) return
    throw onceError('ONCE_UNDOING', { detail: `Step '${name}' was not made, because the operation is refused` })
  }

  /** The handler of a refused operation runs only for its undo functions. */
  checkCommit(): void {
    if (this.refusal) throw onceError('ONCE_UNDOING')
  }

  /** A call without a recorded result has ended, or was refused. */
  passed(): void {
    this.#isPastRecord = true
  }

  /** Runs the handler. If the operation is refused, its steps are undone before this returns. */
  async run(produce: () => Promise<Finish>): Promise<Finish> {
    if (this.refusal) return this.#resume(this.refusal, produce)
    const finish = await produce()
    if (finish.kind === 'committed' || finish.produced.fate !== 'refuse') return finish
    await childrenEnded(this.#core.clock, this.#holder.enclosing)
    await this.#settleOpen()
    this.#checkReached()
    const undo = this.#done()
    if (undo.length === 0) return finish
    const { answer } = finish.produced
    checkHeld(answer)
    await this.#record(refusalName, refusalText({ answer: capped(answer), undo }))
    await this.#undoAll(undo)
    return finish
  }

  /** How the handler ends does not matter: the refusal is recorded. */
  async #resume({ answer, undo }: RecordedRefusal, produce: () => Promise<Finish>): Promise<Finish> {
    await produce().catch(() => undefined)
    const { clock } = this.#core
    const { enclosing } = this.#holder
    await childrenEnded(clock, enclosing)
    await this.#settleOpen()
    if (undo === null) this.#checkReached()
    await this.#undoAll(undo ?? this.#done())
    return { kind: 'refused', produced: { answer, fate: 'refuse' }, resumed: true }
  }

  #done(): string[] {
    return this.#begun.filter(({ state }) => state === 'done').map(({ name }) => name)
  }

  /** A call that failed may have been made. The refusal must wait until the outcome is known. */
  async #settleOpen(): Promise<void> {
    const { unknown } = this.#suspension
    if (unknown) throw unknown
    for (const begun of this.#begun) {
      if (begun.state !== 'open') continue
      if (!begun.ask) {
        const detail = `Step '${begun.name}' failed and may have been made. Throw final() in its call if the provider refused it, or set reconcile`
        throw onceError('ONCE_STEP_OPEN', { detail })
      }
      if (!(await begun.ask())) begun.state = 'none'
    }
  }

  /** An earlier attempt finished a step that this attempt did not reach, so its undo is not known. */
  #checkReached(): void {
    const reached = new Set(this.#begun.map(({ name }) => name))
    for (const step of this.#recorded.values()) {
      if (isMarkedUndoable(step) && !reached.has(step.name))
        throw this.#suspension.suspend(`Step '${step.name}' cannot be undone: the handler did not reach it again`)
    }
  }

  async #undoAll(names: readonly string[]): Promise<void> {
    for (const name of names.toReversed()) {
      if (this.#recorded.has(undoName(name))) continue
      const begun = this.#begun.find((one) => one.name === name)
      if (!begun?.undo)
        throw this.#suspension.suspend(
          `Step '${name}' cannot be undone: the handler did not reach it again, or has no undo`,
        )
      await this.#undo(begun, begun.undo)
    }
  }

  async #undo(begun: Begun, undo: () => Promise<unknown>): Promise<void> {
    const { clock, random } = this.#core
    const { enclosing, signal } = this.#holder
    for (let tries = 1; ; tries++) {
      enclosing.checkOpen()
      if (this.#holder.isOver()) throw this.#holder.lost()
      try {
        await enclosing.track(undo())
        return
      } catch (error) {
        enclosing.checkOpen()
        if (isOnceError(error, 'ONCE_LEASE_LOST')) throw error
        const failure = this.#failed(begun, error, tries)
        if (failure) throw failure
      }
      await sleep(clock, backoffMs(random, tries), signal.signal)
    }
  }

  /** Null: it is tried again. `final` is the provider's last word, so only an operator can go on. */
  #failed({ name, isTransaction }: Begun, cause: unknown, tries: number): OnceError | null {
    const { id } = this.#holder
    const told = onceError('ONCE_UNDO_FAILED', { detail: `Step '${name}' of ${shortId(id)} was not undone`, cause })
    this.#core.settings.observe({ kind: 'troubled', task: 'undo', error: told })
    if (isFinal(cause)) return this.#suspension.suspend(`The undo of step '${name}' was refused for good`, cause)
    // The next attempt fences this one, and then reads whether the undo was committed.
    return tries < UNDO_TRIES_MAX && !(isTransaction && isInDoubt(cause)) ? null : told
  }

  async #record(name: string, result: string): Promise<void> {
    const { id, token, life } = this.#holder
    if (!(await this.#core.store.leases.finishStep({ id, token, life, name, result }))) throw this.#holder.lost()
  }
}

/** The work of a transaction may be committed, although it failed. */
function isInDoubt(error: unknown): boolean {
  return isOnceError(error, 'ONCE_COMMIT_UNKNOWN') || isOnceError(error, 'ONCE_TX_TAKEN')
}
