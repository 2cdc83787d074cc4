import type {
  DeadLetters,
  Letter,
  LetterCounts,
  LetterFilter,
  ListLettersParams,
  StoredLetter,
} from '../dead-letters.ts'
import { countsOf, type LetterGroup } from '../letter-counts.ts'
import {
  FIRST,
  headField,
  idField,
  LAST,
  numbers,
  parkedField,
  placeOf,
  restField,
  triesField,
  type HeadRow,
  type Place,
  type RestRow,
  type TriesRow,
} from './fields.ts'
import { CONSUMERS_MAX, consumersOf, type Registered } from './registry.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'

/** A letter's number in its consumer, with the part that filters look at. */
export interface Numbered {
  readonly no: number
  readonly head: HeadRow
}

const DISCARD_PAGE = 50
const LIST_PAGE = 500

/** The dead letters of a store without transactions. The letters of one consumer are in one group of rows. */
export function leasedLetters(rows: Rows): DeadLetters {
  return {
    list: (params) => list(rows, params),
    async get({ id }) {
      for (const of of await consumersOf(rows, {})) {
        const [no] = await reading<number>(rows, of.consumer, [idField(id)])
        const [found] = no ? await stored(rows, of, await headsOf(rows, of.consumer, [no])) : []
        if (found) return blocking(found, blocksByNo(await headsFrom(rows, of.consumer, no ?? 0)))
      }
      return null
    },
    count: ({ filter }) => count(rows, filter),
    async discard({ filter, limit }) {
      const isMeant = meantBy(filter)
      let discarded = 0
      for (const { consumer } of await consumersOf(rows, filter)) {
        const open = (await headsFrom(rows, consumer)).filter(({ head }) => isOpen(head) && isMeant(head))
        for (let at = 0; at < open.length && discarded < limit; at += DISCARD_PAGE) {
          const page = open.slice(at, at + Math.min(DISCARD_PAGE, limit - discarded)).map(({ no }) => no)
          discarded += await changing(rows, consumer, (draft) => discardSome(draft, page))
        }
      }
      return discarded
    },
  }
}

async function list(
  rows: Rows,
  { filter, limit, after = -1, blocks = true }: ListLettersParams,
): Promise<StoredLetter[]> {
  const isMeant = meantBy(filter)
  const found: StoredLetter[] = []
  for (const of of await consumersOf(rows, filter)) {
    const from = Math.ceil((after + 1 - of.no) / CONSUMERS_MAX)
    if (blocks) {
      const heads = await headsFrom(rows, of.consumer, from)
      const behind = blocksByNo(heads)
      const letters = await stored(rows, of, heads.filter(({ head }) => isMeant(head)).slice(0, limit))
      for (const letter of letters) found.push(blocking(letter, behind))
    } else {
      const letters = await stored(rows, of, await firstMeant(rows, of.consumer, { from, limit }, isMeant))
      for (const letter of letters) found.push(letter)
    }
  }
  return found.sort((a, b) => a.seq - b.seq).slice(0, limit)
}

/** Reads no further than the limit, so that all pages together read each letter once. */
async function firstMeant(
  rows: Rows,
  consumer: string,
  { from, limit }: { readonly from: number; readonly limit: number },
  isMeant: (head: HeadRow) => boolean,
): Promise<Numbered[]> {
  const [first, last] = await reading<number>(rows, consumer, [FIRST, LAST])
  const end = last ?? 0
  const found: Numbered[] = []
  for (let at = Math.max(from, first ?? 1); at <= end && found.length < limit; at += LIST_PAGE) {
    const heads = await headsOf(rows, consumer, numbers(at, Math.min(end, at + LIST_PAGE - 1)))
    for (const of of heads) if (isMeant(of.head)) found.push(of)
  }
  return found.slice(0, limit)
}

async function count(rows: Rows, filter: LetterFilter): Promise<LetterCounts> {
  const isMeant = meantBy(filter)
  const groups = new Map<string, LetterGroup>()
  for (const { consumer } of await consumersOf(rows, filter)) {
    for (const { head } of await headsFrom(rows, consumer)) {
      if (!isMeant(head)) continue
      const { fingerprint, reason, error, parkedAt } = head
      const key = JSON.stringify([consumer, fingerprint, reason])
      const { count: before, firstAt, lastAt } = groups.get(key) ?? { count: 0, firstAt: parkedAt, lastAt: parkedAt }
      groups.set(key, {
        consumer,
        fingerprint,
        reason,
        error,
        count: before + 1,
        firstAt: Math.min(firstAt, parkedAt),
        lastAt: Math.max(lastAt, parkedAt),
      })
    }
  }
  return countsOf([...groups.values()].sort((a, b) => b.count - a.count))
}

async function discardSome(draft: Draft, page: readonly number[]): Promise<number> {
  let discarded = 0
  const heads = await draft.all<HeadRow>(page.map(headField))
  await draft.texts(parkedFields(heads))
  for (const [i, head] of heads.entries()) {
    if (!head || !isOpen(head)) continue
    await put(draft, page[i] as number, { ...head, state: 'discarded', settledAt: draft.now })
    discarded++
  }
  return discarded
}

/** A parked letter, as it is written: its time and its tries are known only here or in an export. */
export type WrittenLetter = Letter & { readonly parkedAt?: number; readonly timeline?: string }

/** Adds letters, except of messages that have one. Returns how many. Reads ahead what each of them needs. */
export async function addLetters(draft: Draft, letters: readonly WrittenLetter[]): Promise<number> {
  const [last] = await draft.all<number>([LAST, ...letters.map(({ id }) => idField(id))])
  const nos = numbers((last ?? 0) + 1, (last ?? 0) + letters.length)
  await draft.texts([...letters.map(({ id }) => triesField(id)), ...parkedFields(letters), ...nos.map(headField)])
  let added = 0
  for (const letter of letters) if (await addLetter(draft, letter)) added++
  return added
}

async function addLetter(draft: Draft, letter: WrittenLetter): Promise<boolean> {
  const { id, body, shown, headers, traceparent, causes, timeline, parkedAt, ...head } = letter
  const [known, last] = await draft.all<number>([idField(id), LAST])
  if (known) return false
  const tried = await draft.get<TriesRow>(triesField(id))
  const no = (last ?? 0) + 1
  const rest: RestRow = {
    body,
    shown,
    headers,
    traceparent,
    causes,
    timeline: timeline ?? JSON.stringify(tried?.timeline ?? []),
  }
  draft.put(LAST, no)
  draft.put(idField(id), no)
  draft.put(restField(no), rest)
  const attempts = Math.max(letter.attempts, tried?.attempts ?? 0)
  await put(draft, no, { ...head, id, attempts, parkedAt: parkedAt ?? draft.now, settledAt: null })
  return true
}

/** Writes a letter's head, and counts the parked letters of its aggregate. */
export async function put(draft: Draft, no: number, head: HeadRow): Promise<void> {
  const before = await draft.get<HeadRow>(headField(no))
  draft.put(headField(no), head)
  const { source, aggregate } = head
  const more = Number(head.state === 'parked') - Number(before?.state === 'parked')
  if (aggregate === null || more === 0) return
  const field = parkedField(source, aggregate)
  const parked = ((await draft.get<number>(field)) ?? 0) + more
  draft.put(field, parked > 0 ? parked : null)
}

/** The fields that `put` reads beside the heads. */
export function parkedFields(heads: readonly (Place | null)[]): string[] {
  return heads.flatMap((head) => (head && head.aggregate !== null ? parkedField(head.source, head.aggregate) : []))
}

/** All letters of a consumer from a number on. */
export async function headsFrom(rows: Rows, consumer: string, from = 0): Promise<Numbered[]> {
  const [first, last] = await reading<number>(rows, consumer, [FIRST, LAST])
  return headsOf(rows, consumer, numbers(Math.max(from, first ?? 1), last ?? 0))
}

export async function headsOf(rows: Rows, consumer: string, nos: readonly number[]): Promise<Numbered[]> {
  const heads = await reading<HeadRow>(rows, consumer, nos.map(headField))
  return heads.flatMap((head, i) => (head ? { no: nos[i] as number, head } : []))
}

/** Adds the larger parts. */
export async function stored(
  rows: Rows,
  { consumer, no: consumersNo }: Registered,
  letters: readonly Numbered[],
): Promise<StoredLetter[]> {
  const rests = await reading<RestRow>(
    rows,
    consumer,
    letters.map(({ no }) => restField(no)),
  )
  return letters.flatMap(({ no, head }, i) => {
    const rest = rests[i]
    return rest ? { ...head, ...rest, consumer, seq: no * CONSUMERS_MAX + consumersNo, blocks: 0 } : []
  })
}

/** For each letter, how many letters are parked behind it in its aggregate. */
function blocksByNo(heads: readonly Numbered[]): ReadonlyMap<number, number> {
  const parked = new Map<string, number>()
  const blocks = new Map<number, number>()
  for (const { no, head } of heads.toReversed()) {
    if (head.aggregate === null) continue
    const place = placeOf(head)
    const behind = parked.get(place) ?? 0
    blocks.set(no, behind)
    if (head.state === 'parked') parked.set(place, behind + 1)
  }
  return blocks
}

function blocking(letter: StoredLetter, blocks: ReadonlyMap<number, number>): StoredLetter {
  return { ...letter, blocks: blocks.get(Math.floor(letter.seq / CONSUMERS_MAX)) ?? 0 }
}

export function isOpen({ state }: Pick<HeadRow, 'state'>): boolean {
  return state === 'parked' || state === 'skipped'
}

export function meantBy(filter: LetterFilter): (head: HeadRow) => boolean {
  const { states, ids, from = -Infinity, to = Infinity, namespace: _namespace, consumer: _consumer, ...rest } = filter
  const equal = Object.entries(rest).filter(([, value]) => value !== undefined)
  const wanted = ids && new Set(ids)
  return (head) =>
    equal.every(([name, value]) => head[name as keyof HeadRow] === value) &&
    (states?.includes(head.state) ?? true) &&
    (wanted?.has(head.id) ?? true) &&
    head.parkedAt >= from &&
    head.parkedAt < to
}
