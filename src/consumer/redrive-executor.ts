import { isOnceError, onceError } from '../errors.ts'
import type { Arrival } from './inbox/arrival.ts'
import { Backlog } from './inbox/backlog.ts'
import {
  CONSUMER_BUSY_MS,
  REDRIVE_BATCH,
  REDRIVE_EARLY_LOOKS,
  REDRIVE_LEASE_MS,
  REDRIVE_PAGE,
  REDRIVE_STARTS_MAX,
  REDRIVE_TROUBLES_MAX,
} from '../limits.ts'
import { processBatch, type SettleRedriven } from './batch.ts'
import { isApplied, type Fate, type Fates } from './fate.ts'
import { processLeased } from './leased.ts'
import type { ConsumerParts } from './parts.ts'
import { tellCrowded, withLocks } from '../operation/crowding.ts'
import { isFinal } from '../operation/final.ts'
import { sleep } from '../platform/clock.ts'
import { RateLimit } from '../platform/rate-limit.ts'
import type { RedriveBeat, RedriveDecision, RedriveItem, RedriveLease, Redrives } from '../store/redrives.ts'
import { failure } from './redrive-failure.ts'
import { FailureWindow } from './failure-window.ts'
import { arrivalOf } from './revive.ts'
import type { Unsure } from './redrive-unsure.ts'

type Decided = readonly [Arrival, RedriveDecision]

/** The actor in the audit for changes that the redrive itself makes. */
const OURSELVES = 'effectively-once'
const EARLY_LOOK_MS = 50
const NAP_MS_MAX = 250

/**
 * Works on one redrive while it holds the lease. It takes letters in order, runs them through the consumer's own
 * insert-first path, and records each result. All other state is in the database.
 */
export class RedriveExecutor<Tx> {
  readonly #parts: ConsumerParts<Tx>
  readonly #redrives: Redrives<Tx>
  readonly #lease: RedriveLease
  readonly #signal: AbortSignal
  readonly #pace: RateLimit
  readonly #window = new FailureWindow()
  #backlog = new Backlog()
  /** All letters up to here are held or decided. */
  #loaded = 0
  #exhausted = false
  /** In which this was read. */
  #round = 0
  /** Letters whose attempt ended without a decision. The next heartbeat reports them. */
  #ended: number[] = []
  /** How often early letters were checked, by their place. */
  readonly #looks = new Map<number, number>()
  #troubles = 0
  readonly #unsure: Unsure<Tx>
  readonly #single: boolean
  #lost = false

  constructor(
    parts: ConsumerParts<Tx>,
    { redrives, lease, unsure }: { redrives: Redrives<Tx>; lease: RedriveLease; unsure: Unsure<Tx> },
    signal: AbortSignal,
  ) {
    this.#parts = { ...parts, tracker: null }
    this.#single = parts.settings.leaseMs !== null
    this.#redrives = redrives
    this.#lease = lease
    this.#unsure = unsure
    this.#signal = signal
    this.#pace = new RateLimit(parts.core.clock, lease.rate)
  }

  /** Runs until there is nothing to do, it is stopped, or the lease is lost. Returns how many letters were decided. */
  async run(): Promise<number> {
    let decided = 0
    const working = new AbortController()
    // A handler may take longer than the lease, and so may reading letters and writing their results.
    const keeping = this.#keepLease(working.signal)
    try {
      while (!this.#signal.aborted && !this.#lost && this.#troubles < REDRIVE_TROUBLES_MAX) {
        const beat = await this.#beat([])
        if (beat?.state !== 'running') break
        if (beat.round !== this.#round) this.#readAgain(beat.round)
        const step = await this.#step(beat)
        if (step === 'ended') break
        decided += step
      }
    } finally {
      // Do this while no other process can have applied them.
      await this.#unsure.tell().catch(() => {})
      // A heartbeat after the release would lease the redrive again.
      working.abort()
      await keeping
      if (!this.#lost) await this.#redrives.release(this.#lease).catch(() => {})
    }
    return decided
  }

  async #step(beat: RedriveBeat): Promise<number | 'ended'> {
    const canaryLeft = beat.canary > 0 ? beat.canary - beat.canaryDecided : Infinity
    if (await this.#stops(beat, canaryLeft)) return 'ended'
    await this.#load(canaryLeft > 0 ? canaryLeft : Infinity)
    if (this.#backlog.size === 0 && this.#exhausted) {
      this.#exhausted = !(await this.#extended())
      if (!this.#exhausted || this.#signal.aborted) return 0
      await this.#change('done', 'every letter was tried', 'done')
      return 'ended'
    }
    this.#pace.rate = beat.rate
    const max = Math.min(this.#pace.allowed(), REDRIVE_BATCH, this.#parts.core.store.locks?.most() ?? Infinity)
    const batch = max < 1 ? [] : this.#backlog.pick(this.#single ? 1 : max, this.#now, true)
    if (batch.length === 0) {
      const restMs = max < 1 ? this.#pace.nextInMs() : this.#backlog.nextAt() - this.#now
      await sleep(this.#parts.core.clock, Math.min(NAP_MS_MAX, Math.max(1, restMs)), this.#signal)
      return 0
    }
    this.#pace.started(batch.length)
    return this.#work(batch)
  }

  /** Adds the letters that were parked behind these meanwhile. Otherwise a busy aggregate would stay parked for ever. */
  async #extended(): Promise<boolean> {
    if ((await this.#redrives.extend(this.#lease)) > 0) return true
    // A consumer that saw the last letter before it was settled may be parking another one behind it.
    await sleep(this.#parts.core.clock, NAP_MS_MAX, this.#signal)
    return (await this.#redrives.extend(this.#lease)) > 0
  }

  get #now(): number {
    return this.#parts.core.clock.now()
  }

  /** Pauses if the canary is over, or if too many letters fail. */
  async #stops({ canary, canaryStops, canaryFailed }: RedriveBeat, canaryLeft: number): Promise<boolean> {
    if (canary > 0 && canaryFailed > 0) {
      await this.#change('paused', `${canaryFailed} of the first ${canary} failed`, 'pause')
      return true
    }
    if (canary > 0 && canaryLeft <= 0) {
      const reason = `the first ${canary} were applied`
      if (!canaryStops) return !(await this.#change('running', null, 'canary', true))
      await this.#change('paused', `${reason}: resume to continue`, 'pause', true)
      return true
    }
    const share = this.#window.share()
    if (!share || share.failed / share.of <= this.#lease.pauseAt) return false
    await this.#change('paused', `${share.failed} of the last ${share.of} failed`, 'pause')
    return true
  }

  async #change(
    to: 'running' | 'paused' | 'done',
    reason: string | null,
    action: string,
    passed = false,
  ): Promise<boolean> {
    const { redrive, token, consumer } = this.#lease
    const why = reason ?? 'the canary was applied'
    const held = { redrive, token, round: this.#round }
    const change = { ...held, from: ['running'] as const, to, reason, action, passed, by: OURSELVES, why }
    const changed = (await this.#redrives.change(change)) !== null
    if (changed && to !== 'running') {
      this.#parts.core.settings.observe({ kind: 'redrive', consumer, redrive, state: to, reason })
    }
    return changed
  }

  async #beat(starting: readonly number[], ended = this.#ended.splice(0)): Promise<RedriveBeat | null> {
    try {
      const beat = await this.#redrives.beat({ ...this.#lease, leaseMs: REDRIVE_LEASE_MS, starting, ended })
      if (!beat) this.#lost = true
      return beat
    } catch (error) {
      this.#ended.push(...ended)
      throw error
    }
  }

  /** Picks letters in the order of the redrive. Letters of one aggregate never run concurrently. */
  async #load(max: number): Promise<void> {
    if (this.#exhausted || this.#backlog.size > REDRIVE_PAGE / 2) return
    // Take only the letters of the canary. Later letters must not overtake one that waits for its retry.
    const limit = Math.min(REDRIVE_PAGE, max - this.#backlog.size)
    if (limit < 1) return
    const page = { redrive: this.#lease.redrive, outcomes: ['pending'] as const, after: this.#loaded, limit }
    await this.#unsure.clear()
    const items = await this.#redrives.items(page)
    this.#exhausted = items.length < limit
    const decided: Decided[] = []
    for (const item of items) {
      this.#loaded = item.ord
      const { letter, copy, ord, starts } = item
      const consumer = this.#parts.core.namespace.hashed(letter.consumer)
      const arrival = arrivalOf(letter, { copy, consumer, from: this.#parts.settings.from, seq: ord, at: this.#now })
      const obstacle = this.#obstacle(item, arrival)
      if (obstacle) decided.push([arrival, obstacle])
      else this.#backlog.add(arrival)
      // It was running when its process was last seen, so it runs alone.
      arrival.suspect = starts > 0
    }
    await this.#decide(decided)
  }

  #obstacle({ ord, letter, starts }: RedriveItem, { problem, delivery }: Arrival): RedriveDecision | null {
    if (letter.state !== 'parked' && letter.state !== 'skipped') return { ord, outcome: 'gone' }
    if (starts >= REDRIVE_STARTS_MAX) {
      return failure(ord, 'crashed', new Error(`the process ended during each of ${starts} attempts`))
    }
    if (problem !== undefined) return failure(ord, 'unreadable', new Error(problem))
    if (!this.#parts.settings.handlers.has(delivery.type)) {
      return failure(ord, 'unknownType', new Error(`no handler for '${delivery.type.slice(0, 80)}'`))
    }
    return null
  }

  async #work(batch: readonly Arrival[]): Promise<number> {
    const ords = batch.map((arrival) => arrival.seq)
    const beat = await this.#beat(ords)
    if (!beat) return 0
    if (beat.round !== this.#round) {
      // A letter before them may run again.
      this.#ended.push(...ords)
      return 0
    }
    const { total: messages, applied } = await this.#judge(await this.#process(batch))
    this.#parts.core.settings.observe({ kind: 'consumed', consumer: this.#lease.consumer, messages, applied })
    return messages
  }

  /** At a stop, a handler that hangs is left behind at its deadline. Other processes may then take its letters. */
  async #keepLease(working: AbortSignal): Promise<void> {
    let until = Infinity
    for (;;) {
      await sleep(this.#parts.core.clock, REDRIVE_LEASE_MS / 3, working)
      if (this.#signal.aborted) until = Math.min(until, this.#now + this.#parts.settings.deadlineMs)
      if (working.aborted || this.#lost || this.#now >= until) return
      // Ends are told in order with starts.
      await this.#beat([], []).catch(() => {})
    }
  }

  async #process(batch: readonly Arrival[]): Promise<Fates> {
    const settle: SettleRedriven<Tx> = async (session, taken) => {
      const ords = taken.map((arrival) => arrival.seq)
      if (await this.#redrives.settle(session, { ...this.#lease, ords })) return
      throw onceError('ONCE_CONFLICT', { detail: 'the redrive was taken over, or its letters were settled' })
    }
    if (!this.#single) return withLocks(this.#parts.core, batch.length, () => processBatch(this.#parts, batch, settle))
    const fates: Fates = new Map()
    for (const arrival of batch) fates.set(arrival, await processLeased(this.#parts, arrival, settle))
    return fates
  }

  async #judge(fates: Fates): Promise<{ total: number; applied: number }> {
    const decided: Decided[] = []
    const done: Arrival[] = []
    let applied = 0
    let troubled: unknown
    for (const [arrival, fate] of fates) {
      // Applied now or before: an unsure commit may become visible only now, and is then a duplicate.
      if (isApplied(fate)) applied++
      if (fate.kind === 'troubled') {
        troubled = fate.error
        if (isOnceError(fate.error, 'ONCE_COMMIT_UNKNOWN')) this.#unsure.add(this.#lease.redrive, arrival.seq)
      }
      const decision = fate.kind === 'applied' ? null : this.#decisionOf(arrival, fate)
      if (decision === 'later') continue
      if (decision) decided.push([arrival, decision])
      this.#window.add(decision?.outcome === 'failed')
      done.push(arrival)
    }
    this.#backlog.done(done, true)
    await this.#decide(decided)
    if (troubled === undefined) this.#troubles = 0
    else await this.#startOver(troubled)
    return { total: done.length, applied }
  }

  #decisionOf(arrival: Arrival, fate: Fate): RedriveDecision | 'later' {
    const ord = arrival.seq
    switch (fate.kind) {
      case 'duplicate':
        return { ord, outcome: 'already' }
      case 'failed':
        return failure(ord, isFinal(fate.error) ? 'refused' : 'failed', fate.error)
      case 'early':
        if (this.#look(arrival) > REDRIVE_EARLY_LOOKS) {
          return failure(ord, 'orphaned', new Error('the predecessor of the message is not applied'), 'blocked')
        }
        arrival.earlySince ??= this.#now
        return this.#later(arrival, EARLY_LOOK_MS * 2 ** (this.#looks.get(ord) ?? 0))
      case 'again':
        arrival.alone = fate.alone
        return this.#later(arrival, 0)
      default:
        return this.#later(arrival, CONSUMER_BUSY_MS)
    }
  }

  /** How often the letter was checked in vain. */
  #look({ seq }: Arrival): number {
    const looks = (this.#looks.get(seq) ?? 0) + 1
    this.#looks.set(seq, looks)
    return looks
  }

  #later(arrival: Arrival, delayMs: number): 'later' {
    this.#ended.push(arrival.seq)
    // The handler ended, so it does not crash its process.
    arrival.suspect = false
    arrival.notBefore = delayMs === 0 ? 0 : this.#now + delayMs
    this.#backlog.later([arrival])
    return 'later'
  }

  /** A failed letter blocks its aggregate: its successors are blocked too, here and in the database. */
  async #decide(decided: readonly Decided[]): Promise<void> {
    if (decided.length === 0) return
    const decisions = decided.map(([, decision]) => decision)
    if (!(await this.#redrives.decide({ ...this.#lease, decisions }))) this.#lost = true
    for (const [{ item, seq }, { outcome }] of decided) {
      if (item.aggregate === null || (outcome !== 'failed' && outcome !== 'blocked')) continue
      const isBehind = (of: Arrival): boolean => of.seq > seq && of.item.aggregate === item.aggregate
      this.#backlog.drop((other) => isBehind(other) && other.item.source === item.source)
      // Successors do not wait for a skipped letter, as the database shows.
      this.#loaded = Math.min(this.#loaded, seq)
      this.#exhausted = false
    }
  }

  async #startOver(error: unknown): Promise<void> {
    const { clock, settings } = this.#parts.core
    settings.observe({ kind: 'troubled', task: 'redrive', error })
    tellCrowded(this.#parts.core, 'redrive', error)
    this.#troubles++
    this.#readAgain(this.#round)
    await sleep(clock, CONSUMER_BUSY_MS * this.#troubles, this.#signal)
  }

  #readAgain(round: number): void {
    this.#round = round
    this.#backlog = new Backlog()
    this.#loaded = 0
    this.#exhausted = false
  }
}
