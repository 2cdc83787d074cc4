import type {
  Letter,
  LetterCounts,
  LetterFilter,
  ListLettersParams,
  NewLetter,
  StoredLetter,
} from '../../dead-letters.ts'
import { countsOf, type LetterGroup } from '../../letter-counts.ts'
import { partsOf } from '../../namespaced/names.ts'
import type { Work } from '../database/connection.ts'
import type { LetterRow } from '../database/inbox-rows.ts'
import { isApplied, lockMessage } from './applied.ts'

/**
 * Returns the ids of the letters whose lock another transaction holds. This is a separate statement, so that the next
 * one sees everything that was committed before the locks.
 */
export async function lockLetters(work: Work, letters: readonly Pick<NewLetter, 'id' | 'lock'>[]): Promise<string[]> {
  const busy: string[] = []
  for (const letter of letters) if (!(await lockMessage(work, letter))) busy.push(letter.id)
  return busy
}

/** Parks locked messages with their attempts, unless they were applied or parked meanwhile. */
export async function parkLetters(work: Work, consumer: string, letters: readonly Letter[]): Promise<void> {
  const { database, tx } = work
  for (const letter of letters) {
    if (!isApplied(work, letter.id)) await insertLetter(work, consumer, letter)
    if ((await database.attempts.lock(letter.id, tx, 'update')) !== undefined)
      database.attempts.put(letter.id, undefined, tx)
  }
}

export async function insertLetter({ database, tx }: Work, consumer: string, letter: Letter): Promise<void> {
  const tried = database.attempts.seen(letter.id, tx)
  const row: LetterRow = {
    ...letter,
    consumer,
    attempts: Math.max(letter.attempts, tried?.attempts ?? 0),
    timeline: JSON.stringify(tried?.timeline ?? []),
    seq: database.next(),
    parkedAt: Math.floor(database.now() / 1000),
    settledAt: null,
  }
  await database.letters.insert(letter.id, row, tx)
}

export function listLetters(work: Work, params: ListLettersParams): StoredLetter[] {
  const { filter, limit, after = -1, blocks = true } = params
  const all = rowsOf(work)
  return all
    .filter((row) => row.seq > after && isMeant(row, filter))
    .slice(0, limit)
    .map((row) => (blocks ? withBlocks(row, all) : { ...row, blocks: 0 }))
}

export function getLetter(work: Work, id: string): StoredLetter | null {
  const all = rowsOf(work)
  const row = all.find((of) => of.id === id)
  return row === undefined ? null : withBlocks(row, all)
}

export function countLetters(work: Work, filter: LetterFilter): LetterCounts {
  const groups = new Map<string, LetterGroup>()
  for (const row of rowsOf(work).filter((one) => isMeant(one, filter))) {
    const { consumer, fingerprint, reason, error, parkedAt } = row
    const key = JSON.stringify([consumer, fingerprint, reason])
    const { count, firstAt, lastAt } = groups.get(key) ?? { count: 0, firstAt: parkedAt, lastAt: parkedAt }
    groups.set(key, {
      consumer,
      fingerprint,
      reason,
      error,
      count: count + 1,
      firstAt: Math.min(firstAt, parkedAt),
      lastAt: Math.max(lastAt, parkedAt),
    })
  }
  return countsOf([...groups.values()].sort((a, b) => b.count - a.count))
}

export async function discardLetters(work: Work, filter: LetterFilter, limit: number): Promise<number> {
  const { database, tx } = work
  let discarded = 0
  for (const { id } of rowsOf(work).filter((row) => isOpen(row) && isMeant(row, filter))) {
    if (discarded >= limit) break
    const row = await database.letters.lock(id, tx, 'update', isOpen)
    if (row === undefined) continue
    database.letters.put(id, { ...row, state: 'discarded', settledAt: Math.floor(database.now() / 1000) }, tx)
    discarded += 1
  }
  return discarded
}

export function isOpen({ state }: LetterRow): boolean {
  return state === 'parked' || state === 'skipped'
}

export function rowsOf({ database, tx }: Work): LetterRow[] {
  return database.letters
    .rows(tx)
    .map(([, row]) => row)
    .sort((a, b) => a.seq - b.seq)
}

function withBlocks(row: LetterRow, all: readonly LetterRow[]): StoredLetter {
  const { consumer, source, aggregate, seq } = row
  const isBehind = (of: LetterRow): boolean =>
    of.state === 'parked' && of.consumer === consumer && of.source === source && of.aggregate === aggregate
  const blocks = aggregate === null ? 0 : all.filter((of) => of.seq > seq && isBehind(of)).length
  return { ...row, blocks }
}

export function isMeant(row: LetterRow, filter: LetterFilter): boolean {
  const { states, ids, from, to, namespace, ...equal } = filter
  for (const [name, value] of Object.entries(equal)) {
    if (value !== undefined && row[name as keyof LetterRow] !== value) return false
  }
  if (namespace !== undefined && partsOf(row.consumer).no !== namespace) return false
  if (states !== undefined && !states.includes(row.state)) return false
  if (ids !== undefined && !ids.includes(row.id)) return false
  return (from === undefined || row.parkedAt >= from) && (to === undefined || row.parkedAt < to)
}
