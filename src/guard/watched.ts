import type { Session } from '../store/store.ts'
import { bypassedBeside, bypassedEffect } from './bypass.ts'
import type { Watched } from '../operation/guard.ts'
import type { Bypass, RunningOperations, Watching } from './guarded-operation.ts'
import type { Finding, Warner } from './warn.ts'
import type { WrittenCounter } from './written.ts'

/** The most places that are remembered for one operation. A loop over the pool is one place. */
const PLACES_MAX = 50

export interface WatchedParts {
  readonly route: string
  readonly session: Session<unknown>
  readonly mode: 'warn' | 'throw'
  readonly warner: Warner
  readonly counter: WrittenCounter
  readonly running: RunningOperations
}

/** One operation from its claim to the end of its handler, with the findings about it. */
export class WatchedOperation implements Watched, Watching {
  readonly started: Promise<void>
  readonly #parts: WatchedParts
  readonly #bypasses = new Map<string, Bypass>()
  /** In mode 'throw': the findings that fail the operation, unless it fails by itself. */
  #refusals: Finding[] = []
  /** The row count before the handler ran, because the counter does not start at zero. */
  #before: number | null = null

  constructor(parts: WatchedParts) {
    this.#parts = parts
    parts.running.add(parts.session, this)
    this.started = parts.counter.read(parts.session).then((count) => {
      this.#before = count
    })
  }

  bypassed(bypass: Bypass): void {
    const key = `${bypass.route}\n${bypass.place}`
    if (this.#bypasses.size < PLACES_MAX) this.#bypasses.set(key, this.#bypasses.get(key) ?? bypass)
  }

  grave(finding: Finding, when: 'now' | 'atEnd'): void {
    const { mode, warner } = this.#parts
    if (mode === 'warn') return warner.warn(finding)
    if (this.#refusals.length < PLACES_MAX) this.#refusals.push(finding)
    if (when === 'now') throw warner.refuse(finding)
  }

  async ended(produced: Parameters<Watched['ended']>[0], events: number): Promise<void> {
    const { running, session, mode } = this.#parts
    // Later calls are outside of the operation, even if it still holds its connection.
    running.remove(session)
    const succeeded = produced.fate === 'complete' && produced.answer.status < 400
    // Count only if the result matters. An event is an effect, too.
    const matters = this.#bypasses.size > 0 || (succeeded && events === 0)
    const written = matters ? await this.#written() : null
    this.#judge(succeeded, written)
    if (mode === 'throw') this.#throwFirst()
  }

  stop(): void {
    const { running, session, warner } = this.#parts
    running.remove(session)
    // The handler failed by itself, and effects outside of its transaction were not rolled back.
    for (const bypass of this.#bypasses.values()) warner.warn(bypassedBeside(bypass))
    for (const finding of this.#refusals) warner.warn(finding)
    this.#bypasses.clear()
    this.#refusals = []
  }

  #judge(succeeded: boolean, written: number | null): void {
    const { warner, mode, route } = this.#parts
    const beside = !succeeded || (written !== null && written > 0)
    for (const bypass of this.#bypasses.values()) {
      const finding = beside ? bypassedBeside(bypass) : bypassedEffect(bypass)
      if (mode === 'throw' && !beside && written !== null) this.#refusals.push(finding)
      else warner.warn(finding)
    }
    if (this.#bypasses.size === 0 && succeeded && written === 0) warner.warn(nothingWritten(route))
    this.#bypasses.clear()
  }

  /** The other findings are reported as warnings when the operation stops. */
  #throwFirst(): void {
    const [first, ...others] = this.#refusals
    if (!first) return
    this.#refusals = others
    throw this.#parts.warner.refuse(first)
  }

  async #written(): Promise<number | null> {
    if (this.#before === null) return null
    const after = await this.#parts.counter.read(this.#parts.session)
    return after === null ? null : Math.max(0, after - this.#before)
  }
}

function nothingWritten(route: string): Finding {
  return {
    code: 'ONCE_NOTHING_WRITTEN',
    route,
    place: '',
    line: `${route} completed without writing a row through tx or publishing an event. If it has an effect, use tx`,
  }
}
