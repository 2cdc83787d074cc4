import { RELAY_SILENCE_MS_MIN } from '../limits.ts'
import type { Observe } from '../observe/signal.ts'
import type { Span, Tracing } from '../observe/tracing.ts'
import type { Clock } from '../platform/clock.ts'
import { SENT, type Sink, type Verdict } from '../sink/sink.ts'
import type { Item } from './item.ts'
import { sendSpans } from './send-spans.ts'

export interface CallParts {
  readonly sink: Sink
  readonly clock: Clock
  readonly observe: Observe
  readonly tracing?: Tracing | null
  readonly leaseMs: number
  /** Whether the relay surely still holds its lease. */
  readonly mayRun: () => boolean
  /** The relay is not stopping. */
  readonly mayBegin: () => boolean
  readonly decide: (item: Item, verdict: Verdict, round: Round) => void
}

/** What the sender knew when a call began. */
export interface Round {
  readonly no: number
  /** The sink was down, and the call only tries it. */
  readonly probing: boolean
  readonly sent: number
  /** Aggregates that had a failure in this call. Their later events were not sent. */
  readonly broken: Set<string>
}

/** Why a call ended. Undefined: every event has its verdict. */
export interface Ended {
  readonly error: unknown
  readonly why: 'rejected' | 'silent' | 'leaseInDoubt' | 'stopped'
}

const CHECKS_PER_LEASE = 8

/** One call of the sink. It ends with its verdicts, or when none came for a while, or when the lease is in doubt. */
export class Call {
  readonly items: readonly Item[]
  readonly round: Round
  readonly startedAt: number
  /** The call tries a sink that is down, and has no answer yet after a while. */
  isOld = false
  /** Never rejects. */
  readonly ended: Promise<Ended | undefined>
  readonly #parts: CallParts
  readonly #abort = new AbortController()
  readonly #left: Set<Item>
  #spans: ReadonlyMap<Item, Span> | undefined
  #open = true
  #heardAt: number
  #cancel: () => void = () => {}
  #resolve!: (ended: Ended | undefined) => void

  constructor(parts: CallParts, items: readonly Item[], round: Round) {
    this.#parts = parts
    this.items = items
    this.round = round
    this.ended = new Promise((resolve) => (this.#resolve = resolve))
    this.#left = new Set(items)
    this.startedAt = parts.clock.now()
    this.#heardAt = this.startedAt
  }

  /** The events without a verdict. */
  get left(): readonly Item[] {
    return [...this.#left]
  }

  /** Calls the sink. `ended` may resolve earlier, because a call does not wait for a silent sink for ever. */
  async run(): Promise<void> {
    const { sink, tracing, mayBegin } = this.#parts
    if (tracing) this.#spans = sendSpans(tracing, sink, this.items)
    const events = this.items.map(({ event }) => event)
    const told = (index: number, verdict: Verdict): void => this.#tell(index, verdict)
    this.#watch()
    let verdicts: unknown
    try {
      verdicts = await sink.send(events, { signal: this.#abort.signal, told, mayBegin })
    } catch (error) {
      return this.#end({ error, why: 'rejected' })
    }
    const list = Array.isArray(verdicts) ? (verdicts as readonly Verdict[]) : []
    if (list !== verdicts && this.#left.size > 0) return this.#end({ error: NO_LIST, why: 'rejected' })
    const left = mayBegin() ? NO_VERDICT : undefined
    for (const index of this.items.keys()) {
      const verdict = list[index] ?? left
      if (verdict) this.#tell(index, verdict)
    }
    this.#end(left ? undefined : { error: new Error('the relay is stopping'), why: 'stopped' })
  }

  stop(error: unknown): void {
    this.#end({ error, why: 'stopped' })
  }

  #tell(index: number, verdict: Verdict): void {
    const item = this.items[index]
    // A verdict after the end, or a second verdict, may not be true of the next attempt.
    if (!this.#open || !item || !this.#left.delete(item)) return
    this.#heardAt = this.#parts.clock.now()
    const heard = plain(verdict)
    this.#spans?.get(item)?.end({ outcome: heard.kind, ...(heard.kind === 'failed' && { error: heard.error }) })
    this.#parts.decide(item, heard, this.round)
  }

  #end(ended: Ended | undefined): void {
    if (!this.#open) return
    this.#open = false
    this.#cancel()
    this.#report(ended)
    if (ended) this.#abort.abort(ended.error)
    this.#resolve(ended)
  }

  #report(ended: Ended | undefined): void {
    const { sink, clock, observe } = this.#parts
    const { name: destination, system } = sink
    const durationMs = clock.now() - this.startedAt
    const failed = ended !== undefined && ended.why !== 'stopped'
    observe({ kind: 'sinkCalled', destination, system, events: this.items.length, durationMs, failed })
    if (!this.#spans) return
    for (const item of this.#left) this.#spans.get(item)?.end({ outcome: 'failed', error: ended?.error })
  }

  #watch(): void {
    const { clock, leaseMs, mayRun } = this.#parts
    const silenceMs = Math.max(leaseMs / 2, RELAY_SILENCE_MS_MIN)
    const leftMs = this.#heardAt + silenceMs - clock.now()
    if (!mayRun()) return this.#end({ error: new Error('the lease may have lapsed'), why: 'leaseInDoubt' })
    if (leftMs <= 0) return this.#end({ error: new Error(`no verdict within ${silenceMs} ms`), why: 'silent' })
    this.#cancel = clock.after(Math.max(1, Math.min(leftMs, leaseMs / CHECKS_PER_LEASE)), () => this.#watch())
  }
}

const NO_VERDICT: Verdict = { kind: 'failed', error: new Error('the sink gave no verdict'), retryable: true }
const NO_LIST = new TypeError('the sink did not return a list of verdicts')

type Failed = Extract<Verdict, { kind: 'failed' }>

/** Users write sinks too, in JavaScript as well. The verdict is read once, because a getter may throw. */
function plain(verdict: unknown): Verdict {
  try {
    const { kind, error, retryable, perhapsDown } = verdict as Omit<Failed, 'kind'> & { kind: unknown }
    if (kind === 'sent') return SENT
    if (kind === 'failed') return { kind, error, retryable, perhapsDown: perhapsDown === true }
  } catch {
    // The verdict cannot be read.
  }
  return NO_VERDICT
}
