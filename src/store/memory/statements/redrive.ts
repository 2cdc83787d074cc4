import type { LetterFilter } from '../../dead-letters.ts'
import { REDRIVE_OUTCOMES } from '../../redrives.ts'
import type {
  ChangeRedriveParams,
  CreatedRedrive,
  CreateRedriveParams,
  NewAuditEntry,
  RedriveCopy,
  RedriveHeld,
  RedriveItem,
  RedriveItemsParams,
  RedriveOutcome,
  RedriveState,
  StoredPlan,
  StoredRedrive,
} from '../../redrives.ts'
import { partsOf } from '../../namespaced/names.ts'
import type { Work } from '../database/connection.ts'
import type { LetterRow } from '../database/inbox-rows.ts'
import { itemKey, redriveKey } from '../database/redrive-rows.ts'
import type { RedriveItemRow, RedriveRow } from '../database/redrive-rows.ts'
import { isApplied } from './applied.ts'
import { isMeant, isOpen, rowsOf } from './letters.ts'

/** The statements about redrives. Each one sees the rows that were committed when it began. */

const ENDED: readonly RedriveState[] = ['done', 'aborted']

export function planRedrive(work: Work, filter: LetterFilter): StoredPlan[] {
  const frozen = freeze(work, filter)
  const consumers = [...new Set(frozen.map(({ row }) => row.consumer))].sort()
  return consumers.map((consumer) => planOf(work, consumer, frozen)).sort((a, b) => b.matching - a.matching)
}

export async function createRedrive(work: Work, params: CreateRedriveParams): Promise<CreatedRedrive> {
  const { database, tx } = work
  const { filter, by, why, asked, prepare, canary, canaryStops, rate, pauseAt, force, reorder } = params
  const { consumer } = filter
  const frozen = freeze(work, filter)
  if (frozen.length === 0) return { kind: 'refused', plan: null }
  const plan = planOf(work, consumer, frozen)
  if (!plan.known || (!force && plan.older > 0) || (!reorder && plan.overtaking > 0)) {
    const active = database.activeRedrives.seen(consumer, tx)
    return active === undefined ? { kind: 'refused', plan } : { kind: 'active', redrive: active.redrive }
  }
  const redrive = database.nextRedrive()
  if (!(await database.activeRedrives.insert(consumer, { redrive }, tx)))
    return { kind: 'active', redrive: database.activeRedrives.seen(consumer, tx)?.redrive ?? 0 }
  const row: RedriveRow = {
    id: redrive,
    consumer,
    state: prepare ? 'preparing' : 'running',
    round: 1,
    token: 0,
    leaseUntil: null,
    rate,
    pauseAt,
    canary,
    canaryStops,
    reason: null,
    by,
    why,
    createdAt: database.now(),
    endedAt: null,
  }
  await database.redrives.insert(redriveKey(redrive), row, tx)
  await database.redriveFences.insert(redriveKey(redrive), { token: 0 }, tx)
  await addItems(
    work,
    redrive,
    0,
    frozen.map(({ row: letter }) => letter),
  )
  const detail = JSON.stringify({ ...(JSON.parse(asked) as object), letters: frozen.length })
  await writeAudit(work, { by, action: 'run', redrive, why, detail, namespace: filter.namespace })
  return { kind: 'created', redrive, plan }
}

/** Adds the letters that were parked behind those of this redrive since its creation. */
export async function extendRedrive(work: Work, { redrive, token }: RedriveHeld): Promise<number> {
  const { database, tx } = work
  const row = database.redrives.seen(redriveKey(redrive), tx)
  const items = itemsOf(work, redrive)
  if (String(row?.token) !== token || items.some(({ body }) => body !== null)) return 0
  const taken = items.flatMap(({ letter }) => database.letters.seen(letter, tx) ?? [])
  const isFree = (of: LetterRow): boolean => {
    const before = taken.filter((letter) => sameAggregate(letter, of))
    return before.length > 0 && before.every((letter) => !isOpen(letter) && letter.seq < of.seq)
  }
  const parked = rowsOf(work).filter((letter) => letter.state === 'parked' && isFree(letter))
  const failed = firstOf(parked.filter(({ reason }) => reason !== 'behind'))
  const found = parked.filter((letter) => letter.seq < (failed.get(aggregateOf(letter)) ?? Infinity))
  await addItems(work, redrive, items.length, found)
  return found.length
}

async function addItems(work: Work, redrive: number, after: number, letters: readonly LetterRow[]): Promise<void> {
  const { database, tx } = work
  for (const [index, { id: letter }] of letters.entries()) {
    const ord = after + index + 1
    const item = { redrive, ord, letter, state: 'pending', round: 0, starts: 0, body: null } as const
    await database.redriveItems.insert(itemKey(redrive, ord), item, tx)
  }
}

export function redriveItems(work: Work, { redrive, outcomes, after, limit }: RedriveItemsParams): RedriveItem[] {
  return itemsOf(work, redrive)
    .filter(({ state, ord }) => outcomes.includes(state) && ord > after)
    .flatMap(({ ord, state, starts, body, letter: id }) => {
      const letter = work.database.letters.seen(id, work.tx)
      return letter === undefined ? [] : { ord, outcome: state, starts, copy: body, letter: { ...letter, blocks: 0 } }
    })
    .slice(0, limit)
}

export async function copyRedrive(work: Work, redrive: number, copies: readonly RedriveCopy[]): Promise<void> {
  const { database, tx } = work
  if (database.redrives.seen(redriveKey(redrive), tx)?.state !== 'preparing') return
  for (const { ord, body } of copies) await changeItem(work, redrive, ord, () => true, { body })
}

export async function changeRedrive(work: Work, params: ChangeRedriveParams): Promise<boolean> {
  const { database, tx } = work
  const { redrive, from, to, reason, by, why, action, token, retry = false, passed = false, rate, round } = params
  const ours = (of: RedriveRow): boolean =>
    from.includes(of.state) && (token === undefined || String(of.token) === token) && of.round === (round ?? of.round)
  const row = await database.redrives.lock(redriveKey(redrive), tx, 'update', ours)
  if (row === undefined) return false
  const ended = ENDED.includes(to)
  database.redrives.put(
    redriveKey(redrive),
    {
      ...row,
      state: to,
      reason,
      rate: rate ?? row.rate,
      canary: passed ? 0 : row.canary,
      round: row.round + (retry ? 1 : 0),
      endedAt: ended ? database.now() : null,
    },
    tx,
  )
  if (ended && (await database.activeRedrives.lock(row.consumer, tx, 'update')) !== undefined)
    database.activeRedrives.put(row.consumer, undefined, tx)
  let again = 0
  for (const { ord, state } of retry ? itemsOf(work, redrive) : []) {
    if (state !== 'failed' && state !== 'blocked') continue
    again += 1
    await changeItem(work, redrive, ord, () => true, { state: 'pending', starts: 0 })
  }
  const detail = {
    ...(reason === null ? {} : { reason }),
    ...(rate === undefined ? {} : { rate }),
    ...(again > 0 ? { again } : {}),
  }
  await writeAudit(work, { by, action, redrive, why, detail: JSON.stringify(detail), namespace: params.namespace })
  return true
}

/** Newest first. */
export function readRedrives(work: Work, redrive: number | null, limit: number, namespace?: number): StoredRedrive[] {
  const { database, tx } = work
  return database.redrives
    .rows(tx)
    .map(([, row]) => row)
    .filter(({ id }) => redrive === null || id === redrive)
    .filter(({ consumer }) => namespace === undefined || partsOf(consumer).no === namespace)
    .sort((a, b) => b.id - a.id)
    .slice(0, limit)
    .map((row) => storedOf(work, row))
}

export async function writeAudit({ database, tx }: Work, entry: NewAuditEntry): Promise<void> {
  const seq = database.next()
  const { namespace = 0 } = entry
  await database.audits.insert(String(seq), { ...entry, namespace, seq, at: Math.floor(database.now() / 1000) }, tx)
}

export function itemsOf({ database, tx }: Work, redrive: number): RedriveItemRow[] {
  return database.redriveItems
    .rows(tx)
    .flatMap(([, row]) => (row.redrive === redrive ? row : []))
    .sort((a, b) => a.ord - b.ord)
}

export async function changeItem(
  { database, tx }: Work,
  redrive: number,
  ord: number,
  likes: (item: RedriveItemRow) => boolean,
  change: Partial<RedriveItemRow>,
): Promise<RedriveItemRow | undefined> {
  const key = itemKey(redrive, ord)
  const item = await database.redriveItems.lock(key, tx, 'update', likes)
  if (item !== undefined) database.redriveItems.put(key, { ...item, ...change }, tx)
  return item
}

export function sameAggregate(a: LetterRow, b: LetterRow): boolean {
  return a.aggregate !== null && a.consumer === b.consumer && a.source === b.source && a.aggregate === b.aggregate
}

function aggregateOf({ consumer, source, aggregate }: LetterRow): string {
  return JSON.stringify([consumer, source, aggregate])
}

/** The position of the first letter of each aggregate. Letters without an aggregate block no other letter. */
function firstOf(rows: readonly LetterRow[]): ReadonlyMap<string, number> {
  const first = new Map<string, number>()
  for (const row of rows) {
    if (row.aggregate === null) continue
    const key = aggregateOf(row)
    first.set(key, Math.min(first.get(key) ?? Infinity, row.seq))
  }
  return first
}

/** The matching letters, and the letters that were parked behind them, in order. */
function freeze(work: Work, filter: LetterFilter): { row: LetterRow; matching: boolean }[] {
  const all = rowsOf(work)
  const matching = new Set(all.filter((row) => isOpen(row) && isMeant(row, filter)))
  const heads = firstOf([...matching].filter(({ state }) => state === 'parked'))
  const isBehind = (row: LetterRow): boolean =>
    row.state === 'parked' && row.reason === 'behind' && (heads.get(aggregateOf(row)) ?? Infinity) < row.seq
  return all.filter((row) => matching.has(row) || isBehind(row)).map((row) => ({ row, matching: matching.has(row) }))
}

function planOf(
  work: Work,
  consumer: string,
  frozen: readonly { readonly row: LetterRow; readonly matching: boolean }[],
): StoredPlan {
  const { database, tx } = work
  const known = database.consumers.seen(consumer, tx)
  const of = frozen.filter(({ row }) => row.consumer === consumer)
  const here = new Set(frozen.map(({ row }) => row.id))
  const waiting = firstOf(rowsOf(work).filter(({ state, id }) => state === 'parked' && !here.has(id)))
  const overtaking = of.filter(
    ({ row }) =>
      row.aggregate !== null && (row.state === 'skipped' || (waiting.get(aggregateOf(row)) ?? Infinity) < row.seq),
  )
  const oldest = database.now() / 1000 - (known?.rememberForMs ?? 0)
  return {
    consumer,
    known: known !== undefined,
    seenAgoMs: known === undefined ? null : (database.now() - known.seenAt) / 1000,
    matching: of.filter(({ matching }) => matching).length,
    behind: of.filter(({ matching }) => !matching).length,
    applied: of.filter(({ row }) => isApplied(work, row.id)).length,
    older: known === undefined ? 0 : of.filter(({ row }) => row.parkedAt < oldest).length,
    overtaking: overtaking.length,
    reordered: new Set(overtaking.map(({ row }) => JSON.stringify([row.source, row.aggregate]))).size,
  }
}

function storedOf(work: Work, row: RedriveRow): StoredRedrive {
  const { database, tx } = work
  const { id, consumer, state, reason, by, why, canary, canaryStops, rate, pauseAt, createdAt, endedAt } = row
  const items = itemsOf(work, id)
  const count = (outcome: RedriveOutcome): number => items.filter((item) => item.state === outcome).length
  const seenAt = database.consumers.seen(consumer, tx)?.seenAt
  const counts = REDRIVE_OUTCOMES.map((outcome) => [outcome, count(outcome)] as const)
  return {
    redrive: id,
    consumer,
    state,
    reason,
    by,
    why,
    canary,
    canaryStops,
    rate,
    pauseAt,
    createdAt: createdAt / 1000,
    endedAt: endedAt === null ? null : endedAt / 1000,
    held: row.leaseUntil !== null && row.leaseUntil > database.now(),
    seenAgoMs: seenAt === undefined ? null : (database.now() - seenAt) / 1000,
    counts: Object.fromEntries(counts) as StoredRedrive['counts'],
  }
}
