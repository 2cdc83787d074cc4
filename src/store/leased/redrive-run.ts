import type {
  BeatRedriveParams,
  RedriveBeat,
  RedriveDecision,
  RedriveHeld,
  RedriveLease,
  RedriveOutcome,
} from '../redrives.ts'
import {
  ACTIVE,
  headField,
  itemField,
  numbers,
  placeOf,
  redriveField,
  restField,
  SEEN,
  type HeadRow,
  type ItemRow,
  type RedriveRow,
  type RestRow,
} from './fields.ts'
import { headsFrom, headsOf, isOpen, parkedFields, put } from './letters.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'
import { firstOf } from './redrive-order.ts'
import { sweepConsumer } from './sweep.ts'

/** The changes of a process that runs a redrive. Its token is the fence: a process that takes over has a higher one. */

const SEEN_MS = 10_000
const TIMELINE_MAX = 50

export async function claim(
  rows: Rows,
  { consumer, leaseMs }: { readonly consumer: string; readonly leaseMs: number },
): Promise<RedriveLease | null> {
  let isSeen = false
  const lease = await changing(rows, consumer, async (draft) => {
    const [seen, redrive] = await draft.all<number>([SEEN, ACTIVE])
    isSeen = draft.now - (seen ?? 0) >= SEEN_MS
    if (isSeen) draft.put(SEEN, draft.now)
    const row = redrive ? await draft.get<RedriveRow>(redriveField(redrive)) : null
    if (!redrive || row?.state !== 'running' || row.leaseUntil >= draft.now) return null
    const token = row.token + 1
    draft.put(redriveField(redrive), { ...row, token, leaseUntil: draft.now + leaseMs } satisfies RedriveRow)
    return { redrive, token: String(token), consumer, rate: row.rate, pauseAt: row.pauseAt }
  })
  // A sweep may take longer than the lease.
  if (isSeen && !lease) await sweepConsumer(rows, consumer)
  return lease
}

export function beat(rows: Rows, consumer: string, params: BeatRedriveParams): Promise<RedriveBeat | null> {
  const { redrive, leaseMs, starting, ended } = params
  const begun = new Set(starting)
  const work = async (draft: Draft): Promise<RedriveBeat | null> => {
    const row = await held(draft, params)
    if (!row) return null
    draft.put(redriveField(redrive), { ...row, leaseUntil: draft.now + leaseMs } satisfies RedriveRow)
    const ords = [...new Set([...starting, ...ended])]
    const items = await draft.all<ItemRow>(ords.map((ord) => itemField(redrive, ord)))
    for (const [i, ord] of ords.entries()) {
      const item = items[i]
      if (!item) continue
      draft.put(itemField(redrive, ord), { ...item, starts: begun.has(ord) ? item.starts + 1 : 0 } satisfies ItemRow)
    }
    const { state, round, rate, canary, canaryStops, decided, failed } = row
    return { state, round, rate, canary, canaryStops, canaryDecided: decided, canaryFailed: failed }
  }
  // A start that is refused must not be written: it would count as a crash of a letter that did not run.
  return changing(rows, consumer, work, { mayBeLost: true })
}

/** After the effect: the letters are redriven, even if they were discarded meanwhile. */
export function settle(
  rows: Rows,
  consumer: string,
  params: RedriveHeld & { readonly ords: readonly number[] },
): Promise<boolean> {
  return changing(rows, consumer, async (draft) => {
    const row = await held(draft, params)
    if (!row) return false
    const outcome = new Outcomes(draft, params.redrive, row)
    for (const ord of params.ords) {
      const item = await outcome.pending(ord)
      if (!item) continue
      await redriven(draft, item)
      outcome.set(ord, item, 'applied')
    }
    outcome.write()
    return true
  })
}

export async function decide(
  rows: Rows,
  consumer: string,
  params: RedriveHeld & { readonly decisions: readonly RedriveDecision[] },
): Promise<boolean> {
  const { redrive, decisions } = params
  const stops = decisions.some(({ outcome }) => outcome === 'failed' || outcome === 'blocked')
  const byPlace = stops ? await itemsByPlace(rows, consumer, redrive) : new Map<string, PlacedItem[]>()
  const decided = new Set(decisions.map(({ ord }) => ord))
  return changing(rows, consumer, async (draft) => {
    const row = await held(draft, params)
    if (!row) return false
    const outcomes = new Outcomes(draft, redrive, row)
    await readAhead(draft, redrive, decisions)
    for (const decision of decisions) {
      const { ord, outcome } = decision
      const item = await outcomes.pending(ord)
      if (!item) continue
      const letter = await draft.get<HeadRow>(headField(item.letter))
      if (outcome === 'already') await redriven(draft, item)
      if (outcome === 'failed') await fail(draft, item, decision)
      if ((outcome === 'failed' || outcome === 'blocked') && letter?.state === 'parked' && letter.aggregate !== null) {
        const later =
          byPlace.get(placeOf(letter))?.filter((of) => of.letter > item.letter && !decided.has(of.ord)) ?? []
        await draft.texts(later.map((of) => itemField(redrive, of.ord)))
        for (const of of later) {
          const behind = await outcomes.pending(of.ord)
          if (behind) outcomes.set(of.ord, behind, 'blocked')
        }
      }
      outcomes.set(ord, item, outcome)
    }
    outcomes.write()
    return true
  })
}

interface PlacedItem {
  readonly ord: number
  readonly letter: number
}

/** The letters of a redrive by their aggregates. Only the holder adds letters, and their aggregates never change. */
async function itemsByPlace(rows: Rows, consumer: string, redrive: number): Promise<ReadonlyMap<string, PlacedItem[]>> {
  const [row] = await reading<RedriveRow>(rows, consumer, [redriveField(redrive)])
  const letters = await lettersOf(rows, consumer, redrive, row?.items ?? 0)
  const heads = new Map((await headsOf(rows, consumer, letters)).map(({ no, head }) => [no, head]))
  const byPlace = new Map<string, PlacedItem[]>()
  for (const [i, letter] of letters.entries()) {
    const head = heads.get(letter)
    if (!head || head.aggregate === null) continue
    const place = placeOf(head)
    const known = byPlace.get(place)
    if (known) known.push({ ord: i + 1, letter })
    else byPlace.set(place, [{ ord: i + 1, letter }])
  }
  return byPlace
}

/** The numbers of a redrive's letters, in its order. */
async function lettersOf(rows: Rows, consumer: string, redrive: number, items: number): Promise<number[]> {
  const fields = numbers(1, items).map((ord) => itemField(redrive, ord))
  return (await reading<ItemRow>(rows, consumer, fields)).map((item) => item?.letter ?? 0)
}

/** Reads what the decisions need, in a few round trips instead of some for each. */
async function readAhead(draft: Draft, redrive: number, decisions: readonly RedriveDecision[]): Promise<void> {
  const items = await draft.all<ItemRow>(decisions.map(({ ord }) => itemField(redrive, ord)))
  const letters = items.flatMap((item) => item?.letter ?? [])
  const failed = items.flatMap((item, i) => (item && decisions[i]?.outcome === 'failed' ? restField(item.letter) : []))
  await draft.texts([...letters.map(headField), ...failed])
  await draft.texts(parkedFields(await draft.all<HeadRow>(letters.map(headField))))
}

/** Adds the letters that were parked behind those of this redrive since its creation. */
export async function extend(rows: Rows, consumer: string, params: RedriveHeld): Promise<number> {
  const { redrive } = params
  const [row] = await reading<RedriveRow>(rows, consumer, [redriveField(redrive)])
  if (!row || row.copied) return 0
  const taken = new Set(await lettersOf(rows, consumer, redrive, row.items))
  const all = await headsFrom(rows, consumer)
  /** The last own letter of each aggregate. Infinity: one of them is still open. */
  const lastOwn = new Map<string, number>()
  for (const { no, head } of all) {
    if (head.aggregate === null || !taken.has(no)) continue
    lastOwn.set(placeOf(head), isOpen(head) ? Infinity : Math.max(no, lastOwn.get(placeOf(head)) ?? 0))
  }
  const parked = all.filter(({ no, head }) => head.state === 'parked' && (lastOwn.get(placeOf(head)) ?? Infinity) < no)
  const failed = firstOf(parked.filter(({ head }) => head.reason !== 'behind'))
  const found = parked.filter(({ no, head }) => no < (failed.get(placeOf(head)) ?? Infinity))
  if (found.length === 0) return 0
  return changing(rows, consumer, async (draft) => {
    const now = await held(draft, params)
    if (!now || now.items !== row.items) return 0
    found.forEach(({ no }, i) => {
      const item: ItemRow = { letter: no, state: 'pending', starts: 0 }
      draft.put(itemField(redrive, now.items + i + 1), item)
    })
    const counts = { ...now.counts, pending: now.counts.pending + found.length }
    draft.put(redriveField(redrive), { ...now, items: now.items + found.length, counts } satisfies RedriveRow)
    return found.length
  })
}

export async function release(rows: Rows, consumer: string, params: RedriveHeld): Promise<void> {
  await changing(rows, consumer, async (draft) => {
    const row = await held(draft, params)
    if (row) draft.put(redriveField(params.redrive), { ...row, leaseUntil: 0 } satisfies RedriveRow)
  })
}

async function held(draft: Draft, { redrive, token }: RedriveHeld): Promise<RedriveRow | null> {
  const row = await draft.get<RedriveRow>(redriveField(redrive))
  return row && String(row.token) === token ? row : null
}

/** The outcomes of letters, with their counts in the redrive's own row. */
class Outcomes {
  readonly #draft: Draft
  readonly #redrive: number
  #row: RedriveRow
  readonly #set = new Set<number>()

  constructor(draft: Draft, redrive: number, row: RedriveRow) {
    this.#draft = draft
    this.#redrive = redrive
    this.#row = row
  }

  async pending(ord: number): Promise<ItemRow | null> {
    const item = this.#set.has(ord) ? null : await this.#draft.get<ItemRow>(itemField(this.#redrive, ord))
    return item?.state === 'pending' ? item : null
  }

  set(ord: number, item: ItemRow, outcome: RedriveOutcome): void {
    this.#set.add(ord)
    this.#draft.put(itemField(this.#redrive, ord), { ...item, state: outcome, starts: 0 } satisfies ItemRow)
    const { counts, decided, failed } = this.#row
    this.#row = {
      ...this.#row,
      counts: { ...counts, pending: counts.pending - 1, [outcome]: counts[outcome] + 1 },
      decided: decided + Number(outcome !== 'blocked' && outcome !== 'gone'),
      failed: failed + Number(outcome === 'failed'),
    }
  }

  write(): void {
    if (this.#set.size > 0) this.#draft.put(redriveField(this.#redrive), this.#row)
  }
}

async function redriven(draft: Draft, { letter }: ItemRow): Promise<void> {
  const head = await draft.get<HeadRow>(headField(letter))
  if (head && head.state !== 'redriven') await put(draft, letter, { ...head, state: 'redriven', settledAt: draft.now })
}

async function fail(
  draft: Draft,
  { letter }: ItemRow,
  { error, reason, fingerprint, causes }: Extract<RedriveDecision, { readonly error: string }>,
): Promise<void> {
  const head = await draft.get<HeadRow>(headField(letter))
  const rest = await draft.get<RestRow>(restField(letter))
  if (!head || !rest || !isOpen(head)) return
  const known = JSON.parse(rest.timeline) as object[]
  const kept = known.length >= TIMELINE_MAX ? known.toSpliced(1, 1) : known
  const timeline = JSON.stringify([...kept, { at: draft.now, error, fingerprint }])
  draft.put(restField(letter), { ...rest, causes, timeline } satisfies RestRow)
  await put(draft, letter, { ...head, attempts: head.attempts + 1, error, reason, fingerprint })
}
