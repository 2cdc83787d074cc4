import { onceError } from '../errors.ts'
import { deriveKey } from '../key/derive.ts'
import { DERIVED_KEY_LENGTH_MAX, STEP_NAME_BYTES_MAX, STEP_RESULT_BYTES_MAX, STEPS_MAX } from '../limits.ts'
import type { Leases, Session, StoredStep } from '../store/store.ts'
import { jsonOf } from './codec.ts'
import type { LazySignal } from './deadline.ts'
import type { Step, StepOptions } from './types.ts'

interface Holder<Tx> {
  readonly leases: Leases<Tx>
  readonly id: string
  readonly token: string
  readonly life: string
  readonly deadlineMs: number
  readonly signal: LazySignal
  /** Tells everybody that the lease is lost, and returns the error to throw. */
  lost(): Error
}

/** The steps of one attempt of a leased operation: recorded ones are not made again. */
export class Steps<Tx> {
  readonly #holder: Holder<Tx>
  readonly #recorded: ReadonlyMap<string, StoredStep>
  readonly #names = new Set<string>()
  #pending = 0

  constructor(holder: Holder<Tx>, recorded: readonly StoredStep[]) {
    this.#holder = holder
    this.#recorded = new Map(recorded.map((step) => [step.name, step]))
  }

  /** Steps that were called and have not ended. */
  get pending(): number {
    return this.#pending
  }

  face(): Step<Tx> {
    const step = <T>(
      name: string,
      call: (s: { key: string; signal: AbortSignal }) => Promise<T>,
      options?: StepOptions<T>,
    ) => this.#counted(() => this.#call(name, call, options ?? {}))
    const tx = <T>(name: string, work: (s: { tx: Tx }) => Promise<T>) =>
      this.#counted(() => this.#transaction(name, work))
    return Object.assign(step, { tx }) as unknown as Step<Tx>
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#pending++
    try {
      return await work()
    } finally {
      this.#pending--
    }
  }

  async #call<T>(
    name: string,
    call: (s: { key: string; signal: AbortSignal }) => Promise<T>,
    options: StepOptions<T>,
  ): Promise<unknown> {
    const { leases, id, token, life, signal } = this.#holder
    const known = this.#use(name)
    if (known?.state === 'done') return parse(known)
    const key = deriveKey({
      id,
      life,
      step: name,
      length: options.keyLength ?? DERIVED_KEY_LENGTH_MAX,
      ...(options.keyAlphabet === undefined ? {} : { alphabet: options.keyAlphabet }),
    })
    if (options.keyed === false) {
      const settled = known?.state === 'started' ? await this.#reconcile(name, options) : undefined
      if (settled) return settled.value
      if (!(await leases.startStep({ id, token, life, name }))) throw this.#holder.lost()
    }
    return this.#finish(name, await call({ key, signal: signal.signal }))
  }

  /** An earlier attempt died inside this call, and the provider does not honour keys: only it can say what happened. */
  async #reconcile<T>(name: string, options: StepOptions<T>): Promise<{ value: unknown } | undefined> {
    const { leases, id, token } = this.#holder
    const verdict = options.reconcile ? await options.reconcile() : 'stop'
    if (verdict === 'rerun') return undefined
    if (verdict !== 'stop') return { value: await this.#finish(name, verdict.done) }
    if (!(await leases.suspend({ id, token }))) throw this.#holder.lost()
    throw onceError('ONCE_OUTCOME_UNKNOWN', {
      detail: `An earlier attempt died inside step '${name}'; its outcome is not known yet`,
    })
  }

  async #finish(name: string, value: unknown): Promise<unknown> {
    const { leases, id, token, life } = this.#holder
    const result = resultOf(name, value)
    if (!(await leases.finishStep({ id, token, life, name, result }))) throw this.#holder.lost()
    return JSON.parse(result)
  }

  async #transaction<T>(name: string, work: (s: { tx: Tx }) => Promise<T>): Promise<unknown> {
    const { leases, id, token, life, deadlineMs } = this.#holder
    const known = this.#use(name)
    if (known?.state === 'done') return parse(known)
    const session = await leases.open({ deadlineMs })
    const result = await inSession(session, name, work)
    if ((await session.completeStep({ id, token, life, name, result })) !== 'committed')
      throw onceError('ONCE_ROLLED_BACK')
    return JSON.parse(result)
  }

  #use(name: string): StoredStep | undefined {
    if (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > STEP_NAME_BYTES_MAX) {
      throw onceError('ONCE_STEP_INVALID', { detail: `A step's name is a string of 1 to ${STEP_NAME_BYTES_MAX} bytes` })
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

async function inSession<Tx, T>(
  session: Session<Tx>,
  name: string,
  work: (s: { tx: Tx }) => Promise<T>,
): Promise<string> {
  const handle = session.revocable()
  try {
    return resultOf(name, await work({ tx: handle.tx }))
  } catch (error) {
    await session.rollback()
    throw error
  } finally {
    handle.revoke()
  }
}

function resultOf(name: string, value: unknown): string {
  const result = jsonOf(value, `the result of step '${name}'`)
  if (Buffer.byteLength(result) > STEP_RESULT_BYTES_MAX) {
    throw onceError('ONCE_STEP_INVALID', {
      detail: `The result of step '${name}' is over ${STEP_RESULT_BYTES_MAX} bytes; return what a retry needs`,
    })
  }
  return result
}

function parse(step: StoredStep): unknown {
  return step.result === null ? null : JSON.parse(step.result)
}
