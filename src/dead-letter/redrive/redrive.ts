import { onceError } from '../../errors.ts'
import { wholeNumber } from '../../options.ts'
import { sleep, type Clock } from '../../platform/clock.ts'
import type { DeadLetters } from '../../store/dead-letters.ts'
import type { ChangeRedriveParams, Redrives, RedriveState, StoredRedrive } from '../../store/redrives.ts'
import { checkAccountable, type Accountable } from '../accountable.ts'
import { discardLetters } from '../discard.ts'
import { checkRate } from '../../platform/rate-limit.ts'
import { checkFilter, checkRedrive } from './options.ts'
import { planOf, refusalsOf } from './plan.ts'
import { previewTransform, writeCopies, type Transform } from './transform.ts'
import type { AuditRecord, Redrive, RedriveFilter, RedriveOptions, RedriveStatus } from './types.ts'

const LIST_LIMIT_MAX = 10_000
const WATCH_MS_DEFAULT = 500

export function redriveOf<Tx>(redrives: Redrives<Tx>, letters: DeadLetters, clock: Clock): Redrive {
  return new Redriving(redrives, letters, clock)
}

class Redriving implements Redrive {
  readonly #redrives: Redrives<never>
  readonly #letters: DeadLetters
  readonly #clock: Clock

  constructor(redrives: Redrives<never>, letters: DeadLetters, clock: Clock) {
    this.#redrives = redrives
    this.#letters = letters
    this.#clock = clock
  }

  async plan(filter: RedriveFilter, options: Parameters<Redrive['plan']>[1] = {}): ReturnType<Redrive['plan']> {
    const stored = checkFilter(filter)
    const { transform, samples, reveal, force = false, reorder = false } = options
    const rows = await this.#redrives.plan({ filter: stored })
    const preview = transform ? await previewTransform(this.#letters, stored, transform, { samples, reveal }) : null
    return planOf(rows, { force, reorder }, preview)
  }

  async run(filter: RedriveFilter, options: RedriveOptions): Promise<RedriveStatus> {
    const checked = checkRedrive(options)
    const { transform } = options
    const plan = await this.plan(filter, { ...checked, ...(transform ? { transform } : {}) })
    const { consumer } = plan
    if (plan.refusals.length > 0 || consumer === null) throw refused(plan.refusals)
    const stored = { ...checkFilter(filter), consumer }
    const asked = JSON.stringify({ filter, ...checked, transformed: plan.transform?.changed })
    const created = await this.#redrives.create({ ...checked, filter: stored, asked, prepare: transform !== undefined })
    if (created.kind === 'active') {
      throw refused([`redrive ${created.redrive} of '${consumer}' has not ended: resume or abort it`])
    }
    // Letters may have come after the plan, so the refusals are computed again.
    if (created.kind === 'refused') throw refused(refusalsOf(created.plan ? [created.plan] : [], checked))
    const { redrive } = created
    return transform ? this.#prepare(redrive, transform, checked, 'prepared') : this.#read(redrive)
  }

  pause(id: number, by: Accountable): Promise<RedriveStatus> {
    return this.#change({
      redrive: id,
      ...checkAccountable(by),
      from: ['running'],
      to: 'paused',
      action: 'pause',
      reason: by.why,
    })
  }

  async resume(id: number, options: Parameters<Redrive['resume']>[1]): Promise<RedriveStatus> {
    const by = checkAccountable(options)
    const { retry = true, transform } = options
    const current = await this.#read(id)
    if (current.state === 'preparing') {
      if (!transform) throw refused([`redrive ${id} was not fully prepared: resume it with its transform, or abort it`])
      return this.#prepare(id, transform, by, 'resume')
    }
    const rate = options.rate === undefined ? {} : { rate: checkRate(options.rate, 'letters') }
    return this.#change({
      redrive: id,
      ...by,
      from: ['paused'],
      to: 'running',
      action: 'resume',
      reason: null,
      retry,
      ...rate,
    })
  }

  abort(id: number, by: Accountable): Promise<RedriveStatus> {
    const from = ['preparing', 'running', 'paused'] as const
    return this.#change({ redrive: id, ...checkAccountable(by), from, to: 'aborted', action: 'abort', reason: by.why })
  }

  async status(id: number): Promise<RedriveStatus | null> {
    const stored = isId(id) ? await this.#redrives.get({ redrive: id }) : null
    return stored && statusOf(stored)
  }

  async list({ limit = 100 }: { limit?: number } = {}): Promise<readonly RedriveStatus[]> {
    return (await this.#redrives.list({ limit: wholeNumber('limit', limit, LIST_LIMIT_MAX) })).map(statusOf)
  }

  async *watch(id: number, options: { everyMs?: number; signal?: AbortSignal } = {}): AsyncIterable<RedriveStatus> {
    const { everyMs = WATCH_MS_DEFAULT, signal } = options
    for (;;) {
      const status = await this.#read(id)
      yield status
      if (!MOVING.includes(status.state)) return
      await sleep(this.#clock, everyMs, signal)
      if (signal?.aborted) return
    }
  }

  async audit({ redrive, limit = 100 }: { redrive?: number; limit?: number } = {}): Promise<readonly AuditRecord[]> {
    const entries = await this.#redrives.audit({ redrive, limit: wholeNumber('limit', limit, LIST_LIMIT_MAX) })
    return entries.map(({ at, by, action, redrive: of, why, detail }) => ({
      at: new Date(at),
      by,
      action,
      redrive: of,
      why,
      detail: JSON.parse(detail) as AuditRecord['detail'],
    }))
  }

  async discard(filter: RedriveFilter, by: Accountable & { limit?: number }): Promise<number> {
    const stores = { letters: this.#letters, redrives: this.#redrives }
    return discardLetters(stores, { filter: checkFilter(filter), asked: filter }, by)
  }

  /** Writes the copies first. No letter runs before the last copy is written. */
  async #prepare(redrive: number, transform: Transform, by: Accountable, action: string): Promise<RedriveStatus> {
    await writeCopies(this.#redrives, redrive, transform)
    const { by: who, why } = by
    return this.#change({ redrive, by: who, why, from: ['preparing'], to: 'running', action, reason: null })
  }

  async #change(params: ChangeRedriveParams): Promise<RedriveStatus> {
    const changed = isId(params.redrive) ? await this.#redrives.change(params) : null
    if (changed) return statusOf(changed)
    const { state } = await this.#read(params.redrive)
    throw onceError('ONCE_REDRIVE_UNKNOWN', {
      detail: `redrive ${params.redrive} is ${state}: it cannot ${params.action}`,
    })
  }

  async #read(id: number): Promise<RedriveStatus> {
    const status = await this.status(id)
    if (status) return status
    throw onceError('ONCE_REDRIVE_UNKNOWN', { detail: `there is no redrive ${String(id).slice(0, 40)}` })
  }
}

const MOVING: readonly RedriveState[] = ['preparing', 'running']

function statusOf(stored: StoredRedrive): RedriveStatus {
  const { redrive, counts, createdAt, endedAt, held, seenAgoMs, canaryStops: _stops, ...same } = stored
  const { pending, applied, already, failed, blocked, gone } = counts
  return {
    id: redrive,
    ...same,
    letters: pending + applied + already + failed + blocked + gone,
    applied,
    already,
    failed,
    blocked,
    gone,
    left: pending,
    createdAt: new Date(createdAt),
    endedAt: endedAt === null ? null : new Date(endedAt),
    working: held,
    consumerSeenAgoMs: seenAgoMs,
  }
}

function isId(id: unknown): id is number {
  return typeof id === 'number' && Number.isInteger(id) && id > 0 && id <= 2_147_483_647
}

function refused(reasons: readonly string[]): Error {
  return onceError('ONCE_REDRIVE_REFUSED', { detail: `The redrive was refused: ${reasons.join('; ')}` })
}
