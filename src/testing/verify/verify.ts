import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { durationText, milliseconds, type Duration } from '../../duration.ts'
import { onceError } from '../../errors.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import { systemClock } from '../../platform/clock.ts'
import type { Boundary, Job, Kill, LeftLease, NextSchedule } from './boundary.ts'
import { runChild, type ChildResult } from './child-process.ts'
import { VerificationError, type Finding } from './finding.ts'

export { VerificationError } from './finding.ts'

export interface VerifyOptions {
  /** The module that exports `once`, `act`, `check` and, if needed, `reset`: a path or a file URL. */
  module: string | URL
  /** The whole run ends within this time. Default '5m' */
  within?: Duration
  /** Modules that Node loads before yours, such as `['tsx']` for TypeScript before Node 22.18. */
  import?: readonly string[]
  /** Called before each schedule. */
  onProgress?: (progress: { readonly schedule: number; readonly of: number; readonly what: string }) => void
  signal?: AbortSignal
}

export interface VerifyReport {
  /** What the handler does, in order: statements, steps, outside calls, commits and answers. */
  readonly boundaries: readonly string[]
  /** How many schedules were run. In each schedule one process died, or two calls were made at once. */
  readonly schedules: number
  /** Boundaries that a later run did not reach, because the handler took another path. */
  readonly unreached: readonly string[]
}

const OPTIONS = new Set(['module', 'within', 'import', 'onProgress', 'signal'])
const WITHIN_MS_DEFAULT = 300_000
const LIMITS = { option: 'within', min: 1_000, max: 86_400_000 }
/** One process retries one schedule and begins the next. On a slow machine it may take longer, as the first one did. */
const CHILD_MS_MIN = 60_000
const SLOWER_THAN_FIRST_MAX = 20

/**
 * Finds the boundaries of a handler, kills a real process before and after each of them, retries as a client would, and
 * calls `check`. Rejects with `VerificationError` at the first broken promise. Works in any test runner.
 *
 * @example
 * test('one charge, whatever dies', () => verify({ module: new URL('./charges.verify.ts', import.meta.url) }), 120_000)
 */
export async function verify(options: VerifyOptions): Promise<VerifyReport> {
  return new Verify(options).run()
}

class Verify {
  readonly #module: URL
  readonly #options: VerifyOptions
  readonly #withinMs: number
  readonly #until: number
  readonly #name = `verify-${process.pid}-${Date.now().toString(36)}`
  #boundaries: readonly Boundary[] = []
  #left: readonly LeftLease[] = []
  #schedules = 0
  #total = 1
  #childMs = CHILD_MS_MIN

  constructor(options: VerifyOptions) {
    refuseUnknown(options, OPTIONS, 'verify')
    this.#options = options
    this.#withinMs = milliseconds(options.within, WITHIN_MS_DEFAULT, LIMITS)
    this.#until = systemClock.now() + this.#withinMs
    this.#module = moduleOf(options)
  }

  async run(): Promise<VerifyReport> {
    const begunAt = systemClock.now()
    const first = await this.#play(null, { kill: null, doubled: false }, 'no crash')
    this.#childMs = Math.max(CHILD_MS_MIN, (systemClock.now() - begunAt) * SLOWER_THAN_FIRST_MAX)
    const boundaries = first.told.flatMap((told) => (told.kind === 'boundary' ? told.boundary : []))
    this.#boundaries = boundaries
    const usesKeys = first.told.some((told) => told.kind === 'settled' && told.keys > 0)
    const kills = boundaries.flatMap(({ label, nth, sides }) => sides.map((side) => ({ label, nth, side })))
    this.#total = kills.length + (usesKeys ? 2 : 1)
    if (usesKeys) await this.#play(null, { kill: null, doubled: true }, 'two calls at once')
    const unreached: string[] = []
    let died: Died | null = null
    for (const kill of kills) {
      const next = { kill, doubled: false }
      const what = `${kill.side} ${kill.label}`
      let result = await this.#play(died, next, what)
      // A process that has already worked may take a shorter way than a new one.
      if (result.end !== 'killed' && died) result = await this.#play(null, next, what)
      died = result.end === 'killed' ? { schedule: this.#schedules - 1, kill } : null
      if (!died) unreached.push(what)
    }
    if (died) await this.#play(died, null, 'the last retry')
    return { boundaries: boundaries.map(({ label }) => label), schedules: this.#schedules, unreached }
  }

  async #play(died: Died | null, plan: Omit<NextSchedule, 'schedule'> | null, what: string): Promise<ChildResult> {
    const schedule = this.#schedules
    const { onProgress, import: imports = [], signal } = this.#options
    if (plan) onProgress?.({ schedule: Math.min(schedule + 1, this.#total), of: this.#total, what })
    const leftMs = this.#until - systemClock.now()
    if (leftMs <= 0) throw this.#timeIsOver()
    const next = plan && { schedule, ...plan }
    const finish = died?.schedule ?? null
    const job: Job = { module: this.#module.href, name: this.#name, left: this.#left, finish, next }
    const result = await runChild(job, { imports, signal, withinMs: Math.min(leftMs, this.#childMs) })
    if (signal?.aborted) throw onceError('ONCE_CLOSED', { detail: 'verify was interrupted' })
    if (result.end === 'late' && systemClock.now() >= this.#until) throw this.#timeIsOver()
    this.#left = result.told.flatMap((told) => (told.kind === 'left' ? told.left : []))
    this.#judge(result, died, next)
    if (next) this.#schedules++
    return result
  }

  /** Throws the first broken promise. */
  #judge({ told, end, lastWords }: ChildResult, died: Died | null, next: NextSchedule | null): void {
    const settled = new Set<number>()
    for (const one of told) {
      if (one.kind === 'refused') throw onceError(one.code, { detail: one.message.replace(`${one.code} `, '') })
      if (one.kind !== 'settled') continue
      settled.add(one.schedule)
      if (one.failure) throw this.#broken(one.schedule === died?.schedule ? died.kill : next, one.failure)
    }
    if (end === 'killed') return
    const isOpen = died && !settled.has(died.schedule) ? died.kill : next && !settled.has(next.schedule) ? next : null
    if (!isOpen) return
    // The module reports what is wrong with itself. A process that reported nothing did not come so far.
    const { import: imports = [] } = this.#options
    if (end === 'crashed' && told.length === 0 && this.#schedules === 0 && imports.length > 0)
      throw invalid(`the modules of --import (${imports.join(', ')}) cannot be loaded: ${lastWords}`)
    const message =
      end === 'late'
        ? `the outcome was still open after ${durationText(this.#childMs, Math.round)}`
        : `the process crashed: ${lastWords}`
    throw this.#broken(isOpen, { of: 'act', message })
  }

  #broken(of: Kill | NextSchedule | null, failure: Finding['failure']): VerificationError {
    const kill = of && 'side' in of ? of : null
    const doubled = of !== null && 'doubled' in of && of.doubled
    return new VerificationError({ kill, doubled, failure, boundaries: this.#boundaries })
  }

  #timeIsOver(): Error {
    const time = durationText(this.#withinMs, Math.round)
    const told =
      this.#schedules === 0
        ? `verify could not run act once within ${time}`
        : `verify ran only ${this.#schedules} of ${this.#total} schedules within ${time}; all of them held`
    return onceError('ONCE_DEADLINE', { detail: `${told}. Raise the option within` })
  }
}

/** The schedule in which a process died. */
interface Died {
  readonly schedule: number
  readonly kill: Kill
}

const TYPESCRIPT = /\.[cm]?tsx?$/

function moduleOf({ module, import: imports = [] }: VerifyOptions): URL {
  if (typeof module !== 'string' && !(module instanceof URL)) throw invalid('verify needs module: a path or a file URL')
  if (!Array.isArray(imports) || imports.some((name) => typeof name !== 'string' || name === ''))
    throw invalid('import must be a list of module names')
  const isUrl = module instanceof URL || module.startsWith('file:')
  const url = isUrl ? new URL(module) : pathToFileURL(resolve(module))
  if (url.protocol !== 'file:' || !existsSync(url)) throw invalid(`there is no file "${isUrl ? url.href : module}"`)
  const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript)
  if (TYPESCRIPT.test(url.pathname) && !stripsTypes && imports.length === 0) {
    throw invalid(
      `Node ${process.versions.node} cannot load TypeScript (${fileURLToPath(url)}). Run: npm i -D tsx. Then pass --import tsx (in a test: import: ['tsx']), or use Node 22.18`,
    )
  }
  return url
}
