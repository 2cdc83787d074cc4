import { isOnceError, type OnceError } from '../errors.ts'
import { recoverLapsed } from '../operation/recover.ts'
import {
  RECOVER_LIMIT_DEFAULT,
  REDRIVE_KEPT_MS,
  SWEEP_EVERY_MS,
  SWEEP_LIMIT_DEFAULT,
  SWEEP_SOON_MS,
} from '../limits.ts'
import type { SweptInbox } from '../store/inbox.ts'
import { partsOf } from '../store/namespaced/names.ts'
import { required } from '../store/lacking.ts'
import type { Swept } from '../store/store.ts'
import type { Core } from '../operation/core.ts'

export interface SweptAll extends Swept {
  /** What was removed for consumers. Null: the store has no inbox. */
  readonly inbox: SweptInbox | null
}

/** Removes expired data, on demand and in the background. */
export class Sweeper<Tx> {
  readonly #core: Core<Tx>
  readonly #stopped = new AbortController()
  /** Troubles that only another role can fix. Each is reported once. */
  #told = new Set<string>()
  #cancel = (): void => {}

  #hurry = false
  /** The newest entry of the audit at the last sweep. */
  #audited: number | undefined
  #recovering: Promise<void> | undefined
  readonly #sweeps = new Set<Promise<void>>()

  /** Sweeps in the background, unless `sweep` is false. The timer does not keep the process alive. */
  constructor(core: Core<Tx>) {
    this.#core = core
    if (!core.settings.sweep || !core.store.retention) return
    // Answers that expire later than all before need partitions that do not exist yet.
    core.settings.reach.whenGrown(() => {
      this.#hurry = true
      this.#next(SWEEP_SOON_MS)
    })
    this.#next(SWEEP_SOON_MS)
  }

  /** Does all parts that it can, then throws the first failure. Missing rights do not count as a failure. */
  sweep(limit: number = SWEEP_LIMIT_DEFAULT, signal?: AbortSignal): Promise<SweptAll> {
    const stopped = this.#stopped.signal
    const sweep = this.#sweep(limit, signal ? AbortSignal.any([signal, stopped]) : stopped)
    const ended = sweep.then(
      () => {},
      () => {},
    )
    this.#sweeps.add(ended)
    void ended.then(() => this.#sweeps.delete(ended))
    return sweep
  }

  get isSweeping(): boolean {
    return this.#sweeps.size > 0
  }

  async #sweep(limit: number, signal: AbortSignal): Promise<SweptAll> {
    const { store, settings } = this.#core
    const { reach, resendForMs, observe } = settings
    const retention = required(store, store.retention, 'sweep')
    const troubles: unknown[] = []
    const swept = await keeping(troubles, () => retention.sweep({ limit, replayForMs: reach.ms, resendForMs, signal }))
    if (swept) {
      const { records, events, suspended, partitionsDropped, partitionsBusy, skipped } = swept
      observe({ kind: 'swept', records, events, suspended, partitionsDropped, partitionsBusy, skipped })
      for (const of of miscountedOf(swept)) observe({ kind: 'miscounted', ...of })
      if (skipped) return { ...swept, inbox: null }
      troubles.push(...swept.troubles)
    }
    const inbox = (await keeping(troubles, () => store.inbox?.sweep?.({ limit, signal }))) ?? null
    if (inbox && inbox.marked + inbox.rows + inbox.marks + inbox.letters > 0) {
      const { marked, rows, marks, letters } = inbox
      observe({ kind: 'sweptInbox', marked, rows, marks, letters })
    }
    await keeping(troubles, () => store.redrives?.sweep({ keepForMs: REDRIVE_KEPT_MS }))
    const others = troubles.filter(isOthers)
    this.#tell(others)
    if (!swept || others.length < troubles.length) throw troubles.find((trouble) => !isOthers(trouble)) ?? troubles[0]
    return {
      ...swept,
      miscounted: miscountedOf(swept),
      inbox,
      troubles: others,
      finished: swept.finished && (inbox?.finished ?? true),
    }
  }

  /** Resolves when no sweep is under way any more. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#cancel()
    await Promise.all([...this.#sweeps, this.#recovering])
  }

  #next(ms: number): void {
    if (this.#stopped.signal.aborted) return
    this.#cancel()
    // Jitter, so that the processes of one deployment do not sweep in step.
    this.#cancel = this.#core.clock.after(ms * (0.5 + this.#core.random.next()), () => void this.#sweepInBackground())
  }

  async #sweepInBackground(): Promise<void> {
    this.#hurry = false
    this.#recover()
    try {
      await this.#forgetErased()
      const { finished } = await this.sweep()
      if (!finished) this.#hurry = true
    } catch (error) {
      // Missing rights were already reported.
      if (!isOthers(error) && !this.#stopped.signal.aborted)
        this.#core.settings.observe({ kind: 'troubled', task: 'sweep', error })
    }
    this.#next(this.#hurry ? SWEEP_SOON_MS : SWEEP_EVERY_MS)
  }

  /**
   * Another process may have erased answers that the memory of this process has. Every erasure ends with an entry in
   * the audit, which has few entries. So the memory is emptied whenever there is a new entry.
   */
  async #forgetErased(): Promise<void> {
    const { namespace, cache } = this.#core
    const [last] = (await namespace.redrives?.audit({ limit: 1 })) ?? []
    if (last && last.seq !== this.#audited) cache.clear()
    this.#audited = last?.seq
  }

  /** Finishes operations that clients of this instance's routes abandoned. Runs beside the sweep, because it may take long. */
  #recover(): void {
    const core = this.#core
    if (core.recoverers.size === 0 || this.#recovering) return
    this.#recovering = recoverLapsed(core, core.recoverers, RECOVER_LIMIT_DEFAULT)
      .then(() => {})
      .catch((error: unknown) => core.settings.observe({ kind: 'troubled', task: 'recover', error }))
      .finally(() => (this.#recovering = undefined))
  }

  /** A trouble that persists is not reported again, even if its numbers changed. */
  #tell(troubles: readonly OnceError[]): void {
    const kinds = new Set<string>()
    for (const error of troubles) {
      const kind = error.message.replaceAll(/\d+/g, '')
      kinds.add(kind)
      if (!this.#told.has(kind)) this.#core.settings.observe({ kind: 'troubled', task: 'sweep', error })
    }
    this.#told = kinds
  }
}

/** Only the owner of the schema can fix this, so a retry does not help. */
function isOthers(error: unknown): error is OnceError {
  return isOnceError(error, 'ONCE_RIGHTS_MISSING')
}

async function keeping<T>(troubles: unknown[], work: () => Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    troubles.push(error)
    return undefined
  }
}

/** A sweep covers all namespaces. The shard tells to which namespace a destination belongs. */
function miscountedOf(swept: Swept): Swept['miscounted'] {
  return swept.miscounted.map((of) => ({ ...of, destination: partsOf(of.destination).name }))
}
