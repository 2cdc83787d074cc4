import type { Answer } from '../../../lifecycle/answer.ts'
import type { Claim, Claimed, CompleteParams, EventRow, Held, RefuseParams } from '../../store.ts'
import type { ClaimView } from '../../../lifecycle/record.ts'
import type { Work } from '../database/connection.ts'
import { isDelayed } from '../../delayed.ts'
import { isOrdered } from '../../ordered.ts'
import { claimEnded, leaseTaken } from '../database/failure.ts'
import { answerKey, dayOf, isHeldBy } from '../database/rows.ts'
import type { RecordRow } from '../database/rows.ts'
import { BORN_COMPLETED, claimInOne, dropRecover, newLife, timesOf } from './claim.ts'
import { enterDelayed } from './delayed.ts'

/**
 * Writes answer and events in the transaction that holds the claim. In any other transaction it raises an error, so
 * that COMMIT becomes ROLLBACK.
 */
export async function complete(work: Work, params: CompleteParams): Promise<void> {
  const { database, tx } = work
  const { claim: of, claimed, answer, events } = params
  if (database.records.slots.get(of.id)?.holder !== tx) throw claimEnded()
  await putAnswer(work, of.id, claimed, answer)
  await append(work, events)
}

/** Completes a leased record, which must be in progress under the caller's token. The token decides, not the clock. */
export async function completeLeased(work: Work, params: CompleteParams): Promise<void> {
  const { claim: of, claimed, answer, events } = params
  if (!(await refuseLeased(work, { id: of.id, token: claimed.token, claim: of, answer }))) throw leaseTaken()
  await append(work, events)
}

/** Writes a final answer without the user's rows. Returns false when the caller no longer holds the lease. */
export async function refuseLeased(work: Work, params: Held & RefuseParams): Promise<boolean> {
  const { database, tx } = work
  const row = await database.records.lock(params.id, tx, 'update', isHeldBy(params))
  if (row === undefined) return false
  await completeRow(work, row, params.claim, params.answer)
  return true
}

/** The caller must have locked the row. */
export async function completeRow(work: Work, row: RecordRow, of: Claim, answer: Answer): Promise<void> {
  const { database, tx } = work
  const done: RecordRow = { ...row, state: 'completed', leaseUntil: null, ...timesOf(of, database.now()) }
  database.records.put(row.id, done, tx)
  await dropRecover(work, row.id)
  await putAnswer(work, row.id, { token: String(row.token), answerDay: dayOf(done.expiresAt) }, answer)
}

/**
 * Claims and writes the final answer in one statement. A forgotten record starts a new life here, because no second
 * statement follows.
 */
export async function refuse(work: Work, { claim: of, answer }: RefuseParams): Promise<ClaimView> {
  const { database, tx } = work
  const { view, claimed } = await claimInOne(work, of, BORN_COMPLETED)
  if (claimed !== null) {
    await putAnswer(work, of.id, claimed, answer)
    return view
  }
  if (view.sameRunning || view.otherRunning) return view
  const row = await database.records.lock(of.id, tx, 'update')
  if (row === undefined || row.state !== 'completed' || row.forgetAt > database.now()) return view
  const next = newLife(database, row, of, BORN_COMPLETED)
  database.records.put(of.id, next, tx)
  await putAnswer(work, of.id, { token: String(next.token), answerDay: dayOf(next.expiresAt) }, answer)
  return { ...view, inserted: true, record: null }
}

/**
 * Takes every shard's lock in ascending order before it draws the first `seq`. So the sequence within a shard is the
 * commit order, which readers with a cursor rely on.
 */
export async function append(work: Work, events: readonly EventRow[]): Promise<void> {
  if (events.length === 0) return
  const { database, tx } = work
  for (const shard of shardsOf(events)) await tx.advisory(eventLock(shard))
  const pause = work.pause('append.locked')
  if (pause !== undefined) await pause
  tx.check()
  for (const event of events) {
    const headers = isOrdered(event) ? chained(work, event) : event.headers
    tx.appendEvent({ ...event, headers, seq: database.nextSeq(), createdAt: database.now() })
    if (isDelayed(event)) await enterDelayed(work, event)
  }
}

/**
 * The lock of the shard guarantees that no other transaction inserts an event between the previous one and this one.
 */
function chained({ database, tx }: Work, event: EventRow): string {
  const { aggregateId, shard } = event
  const own = tx.lastEvent((row) => row.aggregateId === aggregateId && row.shard === shard && isOrdered(row))
  return JSON.stringify({ ...JSON.parse(event.headers), previous: own?.id ?? database.events.head(event) })
}

export function shardsOf(events: readonly EventRow[]): number[] {
  return [...new Set(events.map(({ shard }) => shard))].sort((a, b) => a - b)
}

export const eventLock = (shard: number): string => `event ${shard}`

async function putAnswer(
  { database, tx }: Work,
  id: string,
  { token, answerDay: day }: Pick<Claimed, 'token' | 'answerDay'>,
  answer: Answer,
): Promise<void> {
  const row = { id, token: Number(token), day, ...answer, body: answer.kept ? answer.body : null }
  await database.answers.insert(answerKey(id, row.token), row, tx)
}
