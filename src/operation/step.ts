import { onceError, type OnceError } from '../errors.ts'
import { deriveKey } from '../key/derive.ts'
import { DERIVED_KEY_LENGTH_MAX, STEP_NAME_BYTES_MAX, STEP_RESULT_BYTES_MAX, STEPS_MAX } from '../limits.ts'
import { inSpan, type Span } from '../observe/tracing.ts'
import { isName } from '../platform/storable.ts'
import { nestable, required } from '../store/lacking.ts'
import type { Leases, SqlSession, StoredStep } from '../store/store.ts'
import { rerunAfterConflicts, rolledBack } from './atomic.ts'
import { jsonOf } from './codec.ts'
import type { Core } from './core.ts'
import { LazySignal, TimeLimit } from './deadline.ts'
import { Enclosing } from './enclosing.ts'
import { handleOf } from './handle.ts'
import { SharedTransaction } from './shared-transaction.ts'
import { markedUndoable, RESERVED_PREFIX, undoName } from './undo-record.ts'
import { Undos } from './undo.ts'
import type { Step, StepOptions, StepTxOptions } from './types.ts'

interface Holder {
  readonly id: string
  readonly token: string
  readonly life: string
  readonly route: string
  readonly deadlineMs: number
  readonly signal: LazySignal
  readonly span?: Span | undefined
  /** The operation. It ends only after its steps. */
  readonly enclosing: Enclosing
  /** The lease could not be renewed in time: another attempt may hold it. */
  isOver(): boolean
  /** Aborts the operation because the lease is lost, and returns the error to throw. */
  lost(): Error
}

type Call<T> = (step: { key: string; signal: AbortSignal }) => Promise<T>
type Work<Tx, T> = (step: { tx: Tx }) => Promise<T>

/** The steps of one attempt of a leased operation. Recorded steps do not run again. */
export class Steps<Tx> {
  readonly #core: Core<Tx>
  readonly #leases: Leases
  readonly #holder: Holder
  readonly #recorded: ReadonlyMap<string, StoredStep>
  readonly #names = new Set<string>()
  readonly undos: Undos<Tx>
  #open = true
  #unknown: OnceError | undefined

  constructor(core: Core<Tx>, holder: Holder, recorded: readonly StoredStep[]) {
    this.#core = core
    this.#leases = core.store.leases
    this.#holder = holder
    this.#recorded = new Map(recorded.map((step) => [step.name, step]))
    this.undos = new Undos(core, holder, this.#recorded, this)
  }

  /** The outcome of a call is not known: nothing more may happen here, and the operation ends as unknown. */
  get unknown(): OnceError | undefined {
    return this.#unknown
  }

  /** Only an operator can continue the operation. */
  suspend(detail: string, cause?: unknown): OnceError {
    // The operation is suspended only after its other calls have ended, so that no attempt takes it over before.
    this.#unknown ??= onceError('ONCE_OUTCOME_UNKNOWN', { detail, ...(cause === undefined ? {} : { cause }) })
    return this.#unknown
  }

  /** No step begins while the operation commits: the commit would not wait for it. */
  close(): void {
    this.#open = false
  }

  open(): void {
    this.#open = true
  }

  face(): Step<Tx> {
    const step = <T>(
      name: string,
      call: (s: { key: string; signal: AbortSignal }) => Promise<T>,
      options?: StepOptions<T>,
    ) => this.#counted(() => this.#call(name, call, options ?? {}))
    const tx = <T>(name: string, work: (s: { tx: Tx }) => Promise<T>, options?: StepTxOptions<Tx, T>) =>
      this.#counted(() => this.#databaseWork(name, work, options ?? {}))
    return Object.assign(step, { tx }) as unknown as Step<Tx>
  }

  /** A step is a child of its operation, so nothing is committed or released while its call is running. */
  #counted<T>(work: () => Promise<T>): Promise<T> {
    // A step that begins after the end is refused. It must not count as pending: that would keep the lease.
    if (this.#holder.enclosing.ended) return Promise.reject(this.#holder.enclosing.closed())
    return this.#holder.enclosing.track(work())
  }

  async #call<T>(name: string, call: Call<T>, options: StepOptions<T>): Promise<unknown> {
    const known = this.#use(name)
    const { undo } = options
    checkUndo(undo)
    const make = (): Promise<unknown> => this.#outside(name, known, call, options)
    if (!undo) return make()
    const key = this.#keyOf(undoName(name), options)
    const { signal } = this.#holder
    return this.undos.around(name, {
      make,
      undo: async (result) =>
        this.#finish(undoName(name), await undo({ result: result as never, key, signal: signal.signal })),
      ask: options.reconcile && (() => this.#reconcile(name, options)),
    })
  }

  async #outside<T>(
    name: string,
    known: StoredStep | undefined,
    call: Call<T>,
    options: StepOptions<T>,
  ): Promise<unknown> {
    const { id, token, life, signal, span } = this.#holder
    if (known?.state === 'done') return parse(known)
    const isKeyed = options.keyed !== false
    const isStarted = !isKeyed && known?.state === 'started'
    const undoable = options.undo !== undefined
    const { undos } = this
    try {
      undos.checkNew(name, undoable && (isKeyed || isStarted))
    } catch (error) {
      return this.#refused(error)
    }
    const key = this.#keyOf(name, options)
    try {
      if (isStarted || (undos.refusal && options.reconcile)) {
        const settled = await this.#reconcile(name, options)
        if (settled) return settled.value
        undos.checkMade(name)
      }
      if (!isKeyed) {
        if (!(await this.#leases.startStep({ id, token, life, name }))) throw this.#holder.lost()
        // The store's answer may come so late that the next attempt has already made the call.
        this.#holder.enclosing.checkOpen()
        if (this.#holder.isOver()) throw this.#holder.lost()
      }
      const made = await inSpan(span, { kind: 'step', step: name }, async () => call({ key, signal: signal.signal }))
      return await this.#finish(name, made, undoable)
    } finally {
      undos.passed()
    }
  }

  #keyOf(
    step: string,
    { keyLength = DERIVED_KEY_LENGTH_MAX, keyAlphabet }: Pick<StepOptions<never>, 'keyLength' | 'keyAlphabet'>,
  ): string {
    const { id, life } = this.#holder
    const alphabet = keyAlphabet === undefined ? {} : { alphabet: keyAlphabet }
    return deriveKey({ id, life, step, length: keyLength, ...alphabet })
  }

  /**
   * An earlier attempt died inside this call, and the provider does not honour keys. Only the provider can say what
   * happened.
   */
  async #reconcile<T>(name: string, options: StepOptions<T>): Promise<{ value: unknown } | undefined> {
    const verdict = options.reconcile ? await options.reconcile() : 'stop'
    if (verdict === 'rerun') return undefined
    if (verdict !== 'stop') return { value: await this.#finish(name, verdict.done, options.undo !== undefined) }
    throw this.suspend(`An earlier attempt died inside step '${name}'; its outcome is not known yet`)
  }

  async #finish(name: string, value: unknown, undoable = false): Promise<unknown> {
    const { id, token, life } = this.#holder
    const result = resultOf(name, value, undoable)
    if (!(await this.#leases.finishStep({ id, token, life, name, result }))) throw this.#holder.lost()
    return JSON.parse(result)
  }

  async #databaseWork<T>(name: string, work: Work<Tx, T>, { undo }: StepTxOptions<Tx, T>): Promise<unknown> {
    const known = this.#use(name)
    checkUndo(undo)
    const make = async (): Promise<unknown> => {
      if (known?.state === 'done') return parse(known)
      try {
        this.undos.checkMade(name)
      } catch (error) {
        return this.#refused(error)
      }
      return this.#transaction(name, work, undo !== undefined)
    }
    if (!undo) return make()
    return this.undos.around(name, {
      make,
      undo: (result) => this.#transaction(undoName(name), ({ tx }) => undo({ tx, result: result as never })),
      isTransaction: true,
    })
  }

  /**
   * A refused operation does not make this call. Steps beside it may have begun before, so they begin first. If there
   * are none, a step that follows can never have begun.
   */
  async #refused(error: unknown): Promise<never> {
    const { clock } = this.#core
    const isFirst = this.#holder.enclosing.pending === 0
    const begun = this.#names.size
    await new Promise<void>((go) => (clock.soon ?? queueMicrotask)(go))
    if (isFirst && this.#names.size === begun) this.undos.passed()
    throw error
  }

  #transaction<T>(name: string, work: Work<Tx, T>, undoable = false): Promise<unknown> {
    const run = (): Promise<unknown> =>
      rerunAfterConflicts(this.#core, () => {
        this.#holder.enclosing.checkOpen()
        return this.#transactionOnce(name, work, undoable)
      })
    return inSpan(this.#holder.span, { kind: 'step', step: name }, run)
  }

  async #transactionOnce<T>(name: string, work: Work<Tx, T>, undoable: boolean): Promise<unknown> {
    const { id, token, life, deadlineMs } = this.#holder
    const { store, transactions } = this.#core
    const opened = await required(store, transactions, 'stepTx').open({ deadlineMs })
    const transaction = new SharedTransaction(opened)
    const { session, result } = await this.#inTransaction(transaction, name, work, undoable)
    if ((await session.completeStep({ id, token, life, name, result })) !== 'committed')
      throw onceError('ONCE_ROLLED_BACK')
    transaction.committed()
    return JSON.parse(result)
  }

  /**
   * Runs the work in the step's own transaction, which operations started by the work join. If this throws, the
   * transaction has ended.
   */
  async #inTransaction<T>(
    transaction: SharedTransaction,
    name: string,
    work: Work<Tx, T>,
    undoable: boolean,
  ): Promise<{ readonly session: SqlSession<unknown>; readonly result: string }> {
    const { clock, enclosing: context, store } = this.#core
    const { id, route, deadlineMs, enclosing: outer } = this.#holder
    const enclosing = new Enclosing({ id, route, transaction, publisher: null, outer })
    outer.enter(enclosing)
    try {
      const session = nestable(store, transaction.session, 'stepTx')
      const handle = handleOf(this.#core, enclosing)
      enclosing.onEnd(() => handle.revoke())
      const limit = new TimeLimit(clock, deadlineMs, new LazySignal(), enclosing)
      const made = await limit.run(() => context.run(enclosing, () => work({ tx: handle.tx })))
      const result = resultOf(name, made, undoable)
      await transaction.standing([])
      return { session, result }
    } catch (error) {
      enclosing.end()
      throw (await rolledBack(this.#core, transaction.session, error)) ?? error
    } finally {
      outer.leave(enclosing)
    }
  }

  #use(name: string): StoredStep | undefined {
    this.#holder.enclosing.checkOpen()
    if (!this.#open) {
      throw onceError('ONCE_STEP_PENDING', { detail: `Step '${name}' began while the operation was committing` })
    }
    if (!isName(name, STEP_NAME_BYTES_MAX)) {
      throw onceError('ONCE_STEP_INVALID', {
        detail: `A step's name must be a string of 1 to ${STEP_NAME_BYTES_MAX} bytes`,
      })
    }
    if (name.startsWith(RESERVED_PREFIX)) {
      throw onceError('ONCE_STEP_INVALID', { detail: `A step's name must not begin with '${RESERVED_PREFIX}'` })
    }
    if (this.#names.has(name)) {
      throw onceError('ONCE_STEP_INVALID', {
        detail: `Two steps are called '${name}'; a retry could not tell them apart`,
      })
    }
    if (this.#names.size >= STEPS_MAX)
      throw onceError('ONCE_STEP_INVALID', { detail: `An operation has at most ${STEPS_MAX} steps` })
    this.#names.add(name)
    return this.#recorded.get(name)
  }
}

function checkUndo(undo: unknown): void {
  if (undo === undefined || typeof undo === 'function') return
  throw onceError('ONCE_STEP_INVALID', { detail: 'undo must be a function' })
}

function resultOf(name: string, value: unknown, undoable: boolean): string {
  const result = jsonOf(value, `the result of step '${name}'`)
  if (Buffer.byteLength(result) > STEP_RESULT_BYTES_MAX) {
    throw onceError('ONCE_STEP_INVALID', {
      detail: `The result of step '${name}' is over ${STEP_RESULT_BYTES_MAX} bytes; return only what a retry needs`,
    })
  }
  return undoable ? markedUndoable(result) : result
}

function parse(step: StoredStep): unknown {
  return step.result === null ? null : JSON.parse(step.result)
}
