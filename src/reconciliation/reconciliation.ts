import { isOnceError, onceError } from '../errors.ts'
import { deriveKey } from '../key/derive.ts'
import { ENDS_WITHIN_MS_DEFAULT, ENDS_WITHIN_MS_MAX } from '../limits.ts'
import { instanceOf } from '../once/instance.ts'
import { jsonOf } from '../operation/codec.ts'
import { required } from '../store/lacking.ts'
import type { Accountable } from '../dead-letter/accountable.ts'
import { compare, type Compared as ComparedKey } from './comparison.ts'
import { Compensator, SCOPE, waitForLease } from './compensator.ts'
import { PAGE_BYTES, PAGE_ENTRIES, PAGE_FINDINGS } from './limits.ts'
import { checkedOptions, checkedRun, type CheckedOptions, type RunRules } from './options.ts'
import { Paused, type Compensated } from './paused.ts'
import { recorded } from './recorded-page.ts'
import type {
  Finding,
  Reconciliation,
  ReconciliationOptions,
  ReconciliationPlan,
  ReconciliationResult,
  ReconciliationTotals,
} from './types.ts'

const NONE: ReconciliationTotals = {
  ours: 0,
  theirs: 0,
  missing: 0,
  double: 0,
  orphaned: 0,
  compensated: 0,
  refused: 0,
}
/** For each kind. */
const EXAMPLES_MAX = 20

/** What a page leaves behind: how far it came, and what it found. */
interface Page {
  /** The last key. Null: both sides have ended. */
  readonly after: string | null
  readonly totals: ReconciliationTotals
}

interface Due<O, T> {
  readonly finding: Finding<O, T>
  /** Tells the findings of one key apart. */
  readonly ordinal: number
}

/** A page before its compensations: what it found, of the kinds that are compensated. */
interface Compared<O, T> extends Page {
  readonly due: readonly Due<O, T>[]
}

/**
 * Compares the calls that we recorded with the calls that the provider has, after the fact. Each page of the comparison
 * is a leased operation: its answer is the position, so a run that is killed resumes after the last page.
 */
export function reconciliation<O, T>(options: ReconciliationOptions<O, T>): Reconciliation<O, T> {
  const checked = checkedOptions(options)
  const { name, once } = checked
  return {
    name,
    plan: (how = {}) => plan(checked, how.signal),
    async *findings() {
      for await (const { findings } of compare(checked, null)) yield* findings
    },
    run: async (how) => {
      const rules = checkedRun(how)
      await audit(checked, rules, 'run', { canary: rules.canary, rate: rules.rate })
      const result = await run(checked, rules, how.onProgress)
      await audit(checked, rules, result.state, { ...result })
      return result
    },
    close: () => once.close().then(() => undefined),
  }
}

async function plan<O, T>(options: CheckedOptions<O, T>, signal?: AbortSignal): Promise<ReconciliationPlan<O, T>> {
  let totals = NONE
  const examples: Finding<O, T>[] = []
  const room = { missing: EXAMPLES_MAX, double: EXAMPLES_MAX, orphaned: EXAMPLES_MAX }
  let state: ReconciliationPlan<O, T>['state'] = 'done'
  try {
    for await (const compared of compare(options, null, signal)) {
      for (const finding of compared.findings) if (room[finding.kind]-- > 0) examples.push(finding)
      totals = added(totals, countsOf(compared))
    }
  } catch (error) {
    if (!(error instanceof Paused)) throw error
    state = 'stopped'
  }
  const { compensated: _compensated, refused: _refused, ...found } = totals
  return { ...found, state, examples }
}

async function run<O, T>(
  options: CheckedOptions<O, T>,
  rules: RunRules,
  onProgress?: (totals: ReconciliationTotals) => void,
): Promise<ReconciliationResult> {
  const compensator = new Compensator(options, rules)
  const reading = new Reading(options, rules.signal)
  // At a low rate, the compensations of a page take long.
  const pageMs = ENDS_WITHIN_MS_DEFAULT + (2_000 * PAGE_FINDINGS) / rules.rate
  const endsWithin = `${Math.ceil(Math.min(pageMs, ENDS_WITHIN_MS_MAX))}ms` as const
  let totals = NONE
  let after: string | null = null
  try {
    for (let number = 0; ; number++) {
      const page: Page = await onePage(options, { number, after }, endsWithin, {
        read: (from) => compared(reading, options, from),
        make: (read) => compensated(compensator, read, rules.signal),
      })
      totals = added(totals, page.totals)
      onProgress?.(totals)
      if (page.after === null) return { ...totals, state: 'done', reason: null }
      after = page.after
    }
  } catch (error) {
    if (!(error instanceof Paused)) throw error
    return { ...added(totals, error.totals ?? NONE), state: 'paused', reason: error.message }
  } finally {
    await reading.close()
  }
}

/** Returns the stored result of the page, or makes the page. A page that a killed run held is waited for. */
async function onePage<O, T>(
  { once, name, lease, rememberFor }: CheckedOptions<O, T>,
  at: { readonly number: number; readonly after: string | null },
  endsWithin: `${number}ms`,
  { read, make }: {
    readonly read: (after: string | null) => Promise<Compared<O, T>>
    readonly make: (read: Compared<O, T>) => Promise<Page>
  }, // prettier-ignore
): Promise<Page> {
  const operation = {
    scope: SCOPE,
    key: deriveKey({ id: name, life: undefined, step: `page ${at.number}` }),
    input: at,
    lease,
    replayFor: rememberFor,
    inFlight: { waitFor: waitForLease(lease) },
    endsWithin,
  }
  try {
    return await once.run(operation, async (op) => {
      // Recorded before the first compensation, because a compensation changes what the provider lists.
      const page = await make(await recorded(op, () => read(at.after)))
      return op.commit(() => page)
    })
  } catch (error) {
    if (!isOnceError(error, 'ONCE_IN_FLIGHT')) throw error
    throw onceError('ONCE_IN_FLIGHT', { detail: `Another process runs the reconciliation '${name}'`, cause: error })
  }
}

/** Reads one page. A page ends only between two keys. */
async function compared<O, T>(
  reading: Reading<O, T>,
  { compensate }: CheckedOptions<O, T>,
  after: string | null,
): Promise<Compared<O, T>> {
  let totals = NONE
  let bytes = 0
  const due: Due<O, T>[] = []
  const isFull = (): boolean =>
    totals.ours + totals.theirs >= PAGE_ENTRIES ||
    totals.missing + totals.double + totals.orphaned >= PAGE_FINDINGS ||
    bytes >= PAGE_BYTES
  for (let next = await reading.next(after); next; next = await reading.next(next.key)) {
    totals = added(totals, countsOf(next))
    for (const [ordinal, finding] of next.findings.entries()) {
      if (!compensate[finding.kind]) continue
      due.push({ finding, ordinal })
      bytes += Buffer.byteLength(jsonOf(finding, 'a finding'))
    }
    if (isFull()) return { after: next.key, totals, due }
  }
  return { after: null, totals, due }
}

async function compensated<O, T>(
  compensator: Compensator<O, T>,
  { due, after, totals }: Compared<O, T>,
  signal?: AbortSignal,
): Promise<Page> {
  let all = totals
  let failed = 0
  try {
    for (const { finding, ordinal } of due) {
      if (signal?.aborted) throw new Paused('stopped')
      const done = await compensator.compensate(finding, ordinal)
      if (done === 'failed') failed++
      else all = withOne(all, done)
    }
    checkAll(failed)
  } catch (error) {
    if (error instanceof Paused) error.totals = withOne(all, error.last)
    throw error
  }
  return { after, totals: all }
}

function withOne(all: ReconciliationTotals, done: Compensated): ReconciliationTotals {
  return done === 'compensated' || done === 'refused' ? { ...all, [done]: all[done] + 1 } : all
}

/** The position does not pass a finding that was not compensated. */
function checkAll(failed: number): void {
  if (failed > 0) throw new Paused(`${failed} findings were not compensated; the next run retries them`)
}

/** Keeps both sides open from page to page. */
class Reading<O, T> {
  readonly #options: CheckedOptions<O, T>
  readonly #signal: AbortSignal | undefined
  #open: { readonly compared: AsyncGenerator<ComparedKey<O, T>>; after: string | null } | undefined

  constructor(options: CheckedOptions<O, T>, signal: AbortSignal | undefined) {
    this.#options = options
    this.#signal = signal
  }

  /** Everything about the next key after the given one. Undefined: there is none. */
  async next(after: string | null): Promise<ComparedKey<O, T> | undefined> {
    if (this.#open?.after !== after) await this.close()
    const open = (this.#open ??= { compared: compare(this.#options, after, this.#signal), after })
    const { done, value } = await open.compared.next()
    if (done) return undefined
    open.after = value.key
    return value
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.compared.return(undefined)
  }
}

function countsOf<O, T>({ ours, theirs, findings }: ComparedKey<O, T>): ReconciliationTotals {
  const of = (kind: Finding<O, T>['kind']): number => findings.filter((finding) => finding.kind === kind).length
  return { ...NONE, ours, theirs, missing: of('missing'), double: of('double'), orphaned: of('orphaned') }
}

function added(a: ReconciliationTotals, b: ReconciliationTotals): ReconciliationTotals {
  const names = Object.keys(NONE) as (keyof ReconciliationTotals)[]
  return Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as ReconciliationTotals
}

/** The audit log of redrives and operations. */
async function audit<O, T>(
  { once, name }: CheckedOptions<O, T>,
  { by, why }: Accountable,
  action: string,
  detail: object,
): Promise<void> {
  const { store, namespace } = instanceOf(once).core
  const redrives = required(store, namespace.redrives, 'redrive')
  await redrives.write({
    by,
    why,
    action: `reconciliation ${action}`,
    redrive: null,
    detail: JSON.stringify({ name, ...detail }),
  })
}
