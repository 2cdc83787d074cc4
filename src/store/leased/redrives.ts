import type { LetterFilter } from '../dead-letters.ts'
import { partsOf } from '../namespaced/names.ts'
import {
  REDRIVE_OUTCOMES,
  type ChangeRedriveParams,
  type CreatedRedrive,
  type CreateRedriveParams,
  type ImportedLetter,
  type ImportOutcome,
  type RedriveItem,
  type RedriveItemsParams,
  type RedriveOutcome,
  type Redrives,
  type StoredPlan,
  type StoredRedrive,
} from '../redrives.ts'
import {
  ACTIVE,
  CONSUMER,
  copyField,
  itemField,
  numbers,
  placeOf,
  redriveConsumer,
  redriveField,
  REDRIVES_MADE,
  REGISTRY,
  SEEN,
  type ConsumerRow,
  type ItemRow,
  type RedriveRow,
} from './fields.ts'
import { readAudit, writeAudit } from './audit.ts'
import type { RowInbox } from './inbox.ts'
import { addLetters, headsFrom, headsOf, isOpen, meantBy, stored, type Numbered } from './letters.ts'
import { firstOf } from './redrive-order.ts'
import { beat, claim, decide, extend, release, settle } from './redrive-run.ts'
import { consumerNo, consumersOf } from './registry.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'

const PAGE = 200
const ENDED: readonly string[] = ['done', 'aborted']

/** The redrives of a store without transactions. A redrive and its letters are in the rows of their consumer. */
export function leasedRedrives(rows: Rows, inbox: RowInbox): Redrives<unknown> {
  const owner = async (redrive: number): Promise<string | null> =>
    (await reading<string>(rows, REGISTRY, [redriveConsumer(redrive)]))[0] ?? null
  /** The methods of the process that runs a redrive name only its number. */
  const owned =
    <P extends { readonly redrive: number }, T>(
      work: (rows: Rows, consumer: string, params: P) => Promise<T>,
      none: T,
    ) =>
    async (params: P): Promise<T> => {
      const consumer = await owner(params.redrive)
      return consumer === null ? none : work(rows, consumer, params)
    }
  const get: Redrives<unknown>['get'] = async ({ redrive }) => {
    const consumer = await owner(redrive)
    return consumer === null ? null : storedRedrive(rows, consumer, redrive)
  }
  return {
    plan: ({ filter }) => plan(rows, inbox, filter),
    create: (params) => create(rows, inbox, params),
    items: owned(items, []),
    copy: owned(copy, undefined),
    async change(params) {
      const changed = await owned(change, false)(params)
      return changed ? get(params) : null
    },
    get,
    async list({ limit, namespace }) {
      const [made] = await reading<number>(rows, REGISTRY, [REDRIVES_MADE])
      const found: StoredRedrive[] = []
      for (let redrive = made ?? 0; redrive > 0 && found.length < limit; redrive--) {
        const one = await get({ redrive })
        if (one && (namespace === undefined || partsOf(one.consumer).no === namespace)) found.push(one)
      }
      return found
    },
    claim: (params) => claim(rows, params),
    beat: owned(beat, null),
    settle: (_session, params) => owned(settle, false)(params),
    decide: owned(decide, false),
    extend: owned(extend, 0),
    release: owned(release, undefined),
    audit: (params) => readAudit(rows, params),
    write: (entry) => writeAudit(rows, entry),
    import: ({ letters }) => importAll(rows, inbox, letters),
    // A running consumer sweeps its own redrives.
    sweep: () => Promise.resolve(0),
  }
}

interface Frozen {
  readonly letter: Numbered
  readonly matching: boolean
}

/** The matching letters, and the letters that were parked behind them, in order. */
function freeze(all: readonly Numbered[], filter: LetterFilter): Frozen[] {
  const isMeant = meantBy(filter)
  const matching = new Set(all.filter(({ head }) => isOpen(head) && isMeant(head)))
  const heads = firstOf([...matching].filter(({ head }) => head.state === 'parked'))
  const isBehind = ({ no, head }: Numbered): boolean =>
    head.state === 'parked' && head.reason === 'behind' && (heads.get(placeOf(head)) ?? Infinity) < no
  return all
    .filter((of) => matching.has(of) || isBehind(of))
    .map((letter) => ({ letter, matching: matching.has(letter) }))
}

async function plan(rows: Rows, inbox: RowInbox, filter: LetterFilter): Promise<StoredPlan[]> {
  const plans: StoredPlan[] = []
  for (const { consumer } of await consumersOf(rows, filter)) {
    const all = await headsFrom(rows, consumer)
    const frozen = freeze(all, filter)
    if (frozen.length > 0) plans.push(await planOf(rows, inbox, consumer, all, frozen))
  }
  return plans.sort((a, b) => b.matching - a.matching)
}

async function planOf(
  rows: Rows,
  inbox: RowInbox,
  consumer: string,
  all: readonly Numbered[],
  frozen: readonly Frozen[],
): Promise<StoredPlan> {
  const { values, now } = await rows.read(consumer, [CONSUMER, SEEN])
  const [known, seen] = values.map((text) => (text === null ? null : (JSON.parse(text) as unknown)))
  const records = await inbox.records(consumer)
  let applied = 0
  for (let at = 0; at < frozen.length; at += PAGE) {
    const page = frozen.slice(at, at + PAGE).map(({ letter }) => records.isApplied(letter.head.id))
    applied += (await Promise.all(page)).filter(Boolean).length
  }
  const here = new Set(frozen.map(({ letter }) => letter.no))
  const waiting = firstOf(all.filter(({ no, head }) => head.state === 'parked' && !here.has(no)))
  const overtaking = frozen.filter(
    ({ letter: { no, head } }) =>
      head.aggregate !== null && (head.state === 'skipped' || (waiting.get(placeOf(head)) ?? Infinity) < no),
  )
  const oldest = now - ((known as ConsumerRow | null)?.rememberForMs ?? 0)
  return {
    consumer,
    known: known !== null,
    seenAgoMs: typeof seen === 'number' ? Math.max(0, now - seen) : null,
    matching: frozen.filter(({ matching }) => matching).length,
    behind: frozen.filter(({ matching }) => !matching).length,
    applied,
    older: known === null ? 0 : frozen.filter(({ letter }) => letter.head.parkedAt < oldest).length,
    overtaking: overtaking.length,
    reordered: new Set(overtaking.map(({ letter }) => placeOf(letter.head))).size,
  }
}

const NONE_DECIDED = Object.fromEntries(REDRIVE_OUTCOMES.map((outcome) => [outcome, 0])) as Record<
  RedriveOutcome,
  number
>

async function create(rows: Rows, inbox: RowInbox, params: CreateRedriveParams): Promise<CreatedRedrive> {
  const { filter, by, why, asked, prepare, canary, canaryStops, rate, pauseAt, force, reorder } = params
  const { consumer } = filter
  const [active] = await reading<number>(rows, consumer, [ACTIVE])
  if (active) return { kind: 'active', redrive: active }
  const all = await headsFrom(rows, consumer)
  const frozen = freeze(all, filter)
  if (frozen.length === 0) return { kind: 'refused', plan: null }
  const planned = await planOf(rows, inbox, consumer, all, frozen)
  if (!planned.known || (!force && planned.older > 0) || (!reorder && planned.overtaking > 0)) {
    return { kind: 'refused', plan: planned }
  }
  const redrive = await changing(rows, REGISTRY, async (draft) => {
    const no = ((await draft.get<number>(REDRIVES_MADE)) ?? 0) + 1
    draft.put(REDRIVES_MADE, no)
    draft.put(redriveConsumer(no), consumer)
    return no
  })
  // The audit entry comes first: an entry without its change is harmless.
  const detail = JSON.stringify({ ...(JSON.parse(asked) as object), letters: frozen.length })
  await writeAudit(rows, { by, action: 'run', redrive, why, detail, namespace: filter.namespace })
  return changing(rows, consumer, async (draft): Promise<CreatedRedrive> => {
    const other = await draft.get<number>(ACTIVE)
    if (other && other !== redrive) return { kind: 'active', redrive: other }
    draft.put(ACTIVE, redrive)
    frozen.forEach(({ letter }, i) => {
      draft.put(itemField(redrive, i + 1), { letter: letter.no, state: 'pending', starts: 0 } satisfies ItemRow)
    })
    const chosen = { rate, pauseAt, canary, canaryStops, by, why }
    draft.put(redriveField(redrive), {
      state: prepare ? 'preparing' : 'running',
      round: 1,
      token: 0,
      leaseUntil: 0,
      ...chosen,
      decided: 0,
      failed: 0,
      reason: null,
      createdAt: draft.now,
      endedAt: null,
      items: frozen.length,
      counts: { ...NONE_DECIDED, pending: frozen.length },
      copied: false,
    } satisfies RedriveRow)
    return { kind: 'created', redrive, plan: planned }
  })
}

async function items(rows: Rows, consumer: string, params: RedriveItemsParams): Promise<RedriveItem[]> {
  const { redrive, outcomes, after, limit } = params
  const [row] = await reading<RedriveRow>(rows, consumer, [redriveField(redrive)])
  const no = await consumerNo(rows, consumer)
  const found: RedriveItem[] = []
  for (let at = after + 1; at <= (row?.items ?? 0) && found.length < limit; at += PAGE) {
    const ords = numbers(at, Math.min(at + PAGE - 1, row?.items ?? 0))
    const page = await reading<ItemRow>(
      rows,
      consumer,
      ords.map((ord) => itemField(redrive, ord)),
    )
    const wanted = ords.flatMap((ord, i) => {
      const item = page[i]
      return item && outcomes.includes(item.state) ? { ord, item } : []
    })
    const heads = await headsOf(
      rows,
      consumer,
      wanted.map(({ item }) => item.letter),
    )
    const letters = new Map((await stored(rows, { consumer, no }, heads)).map((letter) => [letter.id, letter]))
    const byNo = new Map(heads.map((of) => [of.no, letters.get(of.head.id)]))
    const copies = row?.copied
      ? (
          await rows.read(
            consumer,
            wanted.map(({ ord }) => copyField(redrive, ord)),
          )
        ).values
      : []
    for (const [i, { ord, item }] of wanted.entries()) {
      const letter = byNo.get(item.letter)
      const text = copies[i]
      const copied = text ? (JSON.parse(text) as string) : null
      if (letter) found.push({ ord, outcome: item.state, starts: item.starts, copy: copied, letter })
    }
  }
  return found.slice(0, limit)
}

async function copy(rows: Rows, consumer: string, params: Parameters<Redrives<unknown>['copy']>[0]): Promise<void> {
  const { redrive, copies } = params
  await changing(rows, consumer, async (draft) => {
    const row = await draft.get<RedriveRow>(redriveField(redrive))
    if (row?.state !== 'preparing') return
    for (const { ord, body } of copies) draft.put(copyField(redrive, ord), body)
    draft.put(redriveField(redrive), { ...row, copied: row.copied || copies.length > 0 })
  })
}

async function change(rows: Rows, consumer: string, params: ChangeRedriveParams): Promise<boolean> {
  const { redrive, from, to, reason, by, why, action, token, retry = false, passed = false, rate, round } = params
  const isOurs = (row: RedriveRow | null): row is RedriveRow =>
    row !== null &&
    from.includes(row.state) &&
    (token === undefined || String(row.token) === token) &&
    row.round === (round ?? row.round)
  const [before] = await reading<RedriveRow>(rows, consumer, [redriveField(redrive)])
  if (!isOurs(before ?? null)) return false
  let again = 0
  const changed = await changing(rows, consumer, async (draft: Draft) => {
    const row = await draft.get<RedriveRow>(redriveField(redrive))
    if (!isOurs(row)) return false
    again = retry ? row.counts.failed + row.counts.blocked : 0
    const isOver = ENDED.includes(to)
    draft.put(redriveField(redrive), {
      ...row,
      state: to,
      reason,
      rate: rate ?? row.rate,
      canary: passed ? 0 : row.canary,
      round: row.round + (retry ? 1 : 0),
      ...(retry ? { decided: 0, failed: 0 } : {}),
      counts: retry ? { ...row.counts, pending: row.counts.pending + again, failed: 0, blocked: 0 } : row.counts,
      endedAt: isOver ? draft.now : null,
    } satisfies RedriveRow)
    if (isOver && (await draft.get<number>(ACTIVE)) === redrive) draft.put(ACTIVE, null)
    if (again === 0) return true
    const fields = numbers(1, row.items).map((ord) => itemField(redrive, ord))
    for (const [i, item] of (await draft.all<ItemRow>(fields)).entries()) {
      if (item?.state !== 'failed' && item?.state !== 'blocked') continue
      draft.put(fields[i] as string, { ...item, state: 'pending', starts: 0 } satisfies ItemRow)
    }
    return true
  })
  if (!changed) return false
  const detail = {
    ...(reason === null ? {} : { reason }),
    ...(rate === undefined ? {} : { rate }),
    ...(again > 0 ? { again } : {}),
  }
  await writeAudit(rows, { by, action, redrive, why, detail: JSON.stringify(detail), namespace: params.namespace })
  return true
}

async function storedRedrive(rows: Rows, consumer: string, redrive: number): Promise<StoredRedrive | null> {
  const { values, now } = await rows.read(consumer, [redriveField(redrive), SEEN])
  const [text, seen] = values
  if (!text) return null
  const row = JSON.parse(text) as RedriveRow
  const { state, reason, by, why, canary, canaryStops, rate, pauseAt, createdAt, endedAt, counts } = row
  return {
    redrive,
    consumer,
    state,
    reason,
    by,
    why,
    canary,
    canaryStops,
    rate,
    pauseAt,
    createdAt,
    endedAt,
    counts,
    held: row.leaseUntil > now,
    seenAgoMs: seen ? Math.max(0, now - Number(seen)) : null,
  }
}

/** Imports letters of one consumer after the other, each consumer's in the order of their lines. */
async function importAll(rows: Rows, inbox: RowInbox, letters: readonly ImportedLetter[]): Promise<ImportOutcome> {
  const total = { imported: 0, applied: 0, busy: [] as string[] }
  for (const consumer of new Set(letters.map((letter) => letter.consumer))) {
    await consumerNo(rows, consumer)
    const own = letters.filter((letter) => letter.consumer === consumer)
    await inbox.underHolds(consumer, own, async (free, busy, notAfter) => {
      const written = free.map(({ lock: _lock, consumer: _consumer, ...letter }) => letter)
      total.imported += await changing(rows, consumer, (draft) => addLetters(draft, written), { notAfter })
      total.applied += own.length - free.length - busy.length
      total.busy.push(...busy)
    })
  }
  return total
}
