import type { CompleteInboxParams, InboxItem, InboxState, OpenInboxParams, StoredPosition } from '../../inbox.ts'
import type { Work } from '../database/connection.ts'
import { setAsideMeanwhile } from '../database/failure.ts'
import { positionKey } from '../database/inbox-rows.ts'
import type { LetterRow } from '../database/inbox-rows.ts'
import { inboxLock, isApplied } from './applied.ts'

export async function openConsumer({ database, tx }: Work, params: OpenInboxParams): Promise<void> {
  const { consumer: name, inboxForMs, rememberForMs, lettersForMs } = params
  const row = { name, inboxForMs, rememberForMs, lettersForMs, seenAt: database.now() }
  if (await database.consumers.insert(name, row, tx)) return
  await database.consumers.lock(name, tx, 'update')
  database.consumers.put(name, row, tx)
}

/**
 * Takes every free message in one statement. The statement checks obstacles in its first snapshot, then tries the
 * locks, then inserts the rows. It never waits, because the transaction that works on a message holds its lock.
 */
export async function takeMessages(
  work: Work,
  consumer: string,
  items: readonly InboxItem[],
  redrive: boolean,
): Promise<InboxState[]> {
  const seen = items.map((item) => obstacle(work, consumer, item, redrive))
  const pause = work.pause('take.locks')
  if (pause !== undefined) await pause
  work.tx.check()
  const states: InboxState[] = []
  for (const [i, item] of items.entries()) {
    const state = seen[i] ?? (work.tx.tryAdvisory(inboxLock(item.lock)) ? 'taken' : 'busy')
    states.push(state === 'taken' && !(await insertRow(work, consumer, item)) ? 'duplicate' : state)
  }
  return states
}

/** Makes the same checks as `takeMessages` without taking a message. */
export function lookAt(work: Work, consumer: string, items: readonly InboxItem[], redrive: boolean): InboxState[] {
  return items.map((item) =>
    isApplied(work, item.id) ? 'duplicate' : (obstacle(work, consumer, item, redrive) ?? 'taken'),
  )
}

/** Inserts the row of one locked message into a transaction that its owner ends. */
export async function enterMessage(work: Work, consumer: string, item: InboxItem, redrive: boolean): Promise<boolean> {
  if (work.database.marks.seen(item.id, work.tx) !== undefined) return false
  if (!redrive && isSetAside(work, item.id)) return false
  return insertRow(work, consumer, item)
}

export interface CompletedInbox extends Omit<CompleteInboxParams, 'events'> {
  /**
   * The messages that were taken outside a redrive. If one of them has a dead letter by now, the transaction must not
   * commit.
   */
  readonly taken: readonly string[]
}

/** Writes everything that commits together with the effect. */
export async function completeInbox(work: Work, { consumer, taken, tried, positions }: CompletedInbox): Promise<void> {
  const { attempts } = work.database
  if (taken.some((id) => isSetAside(work, id))) throw setAsideMeanwhile()
  for (const id of tried) {
    if ((await attempts.lock(id, work.tx, 'update')) !== undefined) attempts.put(id, undefined, work.tx)
  }
  if (positions !== null) await passPositions(work, consumer, positions.source, positions.positions)
}

/**
 * Never moves a position backwards. It also leaves a position unchanged when the database lacks rows that the caller
 * has seen, as after a restore.
 */
export async function passPositions(
  work: Work,
  consumer: string,
  source: string,
  positions: readonly StoredPosition[],
): Promise<void> {
  const { database, tx } = work
  const isKnown = (id: string): boolean => isApplied(work, id) || database.letters.seen(id, tx) !== undefined
  for (const { partition, next, from, witnesses = [] } of positions) {
    const key = positionKey(consumer, source, partition)
    if (from !== undefined && BigInt(database.positions.seen(key, tx)?.next ?? 0) < BigInt(from)) continue
    if (!witnesses.every(isKnown)) continue
    if (await database.positions.insert(key, { consumer, source, partition, next }, tx)) continue
    const known = await database.positions.lock(key, tx, 'update')
    if (known === undefined || BigInt(known.next) >= BigInt(next)) continue
    database.positions.put(key, { ...known, next }, tx)
  }
}

export function positionsOf({ database, tx }: Work, consumer: string, source: string): StoredPosition[] {
  return database.positions
    .rows(tx)
    .filter(([, row]) => row.consumer === consumer && row.source === source)
    .map(([, { partition, next }]) => ({ partition, next }))
}

function insertRow({ database, tx }: Work, consumer: string, item: InboxItem): Promise<boolean> {
  const { id, source, message } = item
  return database.inbox.insert(id, { id, consumer, source, message, at: database.now() }, tx)
}

/** The reason why a message cannot be taken, or null. The message's own inbox row is not checked here. */
export function obstacle(work: Work, consumer: string, item: InboxItem, redrive: boolean): InboxState | null {
  const { database, tx } = work
  if (database.marks.seen(item.id, tx) !== undefined) return 'duplicate'
  if (!redrive && isSetAside(work, item.id)) return 'parked'
  if (!redrive && item.aggregate !== null && isParked(work, consumer, item))
    return isApplied(work, item.id) ? 'duplicate' : 'behind'
  if (item.previous === null || isPassed(work, item.previous)) return null
  return isApplied(work, item.id) ? 'duplicate' : 'early'
}

function isSetAside({ database, tx }: Work, id: string): boolean {
  const own = database.letters.seen(id, tx)
  return own !== undefined && own.state !== 'redriven'
}

function isParked({ database, tx }: Work, consumer: string, { source, aggregate }: InboxItem): boolean {
  return database.letters
    .rows(tx)
    .some(
      ([, row]) =>
        row.state === 'parked' && row.consumer === consumer && row.source === source && row.aggregate === aggregate,
    )
}

/**
 * Whether the successor of this message may run: the message was applied, skipped or discarded. If it was discarded, so
 * must be every predecessor, up to an applied or skipped one, the aggregate's first, or one that never arrived.
 */
function isPassed(work: Work, id: string): boolean {
  const letterOf = (of: string): LetterRow | undefined => work.database.letters.seen(of, work.tx)
  const walked = new Set<string>()
  for (let at: string = id; !walked.has(at);) {
    walked.add(at)
    const letter = letterOf(at)
    if (isApplied(work, at) || letter?.state === 'skipped') return true
    if (letter?.state !== 'discarded') return false
    const { previous, reason } = letter
    if (previous === null || (reason === 'orphaned' && letterOf(previous) === undefined)) return true
    at = previous
  }
  return false
}
