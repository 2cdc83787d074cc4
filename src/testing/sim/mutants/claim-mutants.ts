import { decide } from '../../../lifecycle/decide.ts'
import type { ClaimView, StoredRecord } from '../../../lifecycle/record.ts'
import type { Work } from '../../../store/memory/database/connection.ts'
import { answerKey, claimedOf } from '../../../store/memory/database/rows.ts'
import { BORN_COMPLETED, claimInOne, freshRow, newLife } from '../../../store/memory/statements/claim.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Claim, Claimed } from '../../../store/store.ts'
import { decision, statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const SKEW_MS = 500

/** Mutants of claims, decisions and expiry. */
export const CLAIM_MUTANTS: readonly Mutant[] = [
  decision('I4', 'answers before it compares', (view, policy) => {
    const { record } = view
    return decide(record === null ? view : withRecord(view, { ...record, fingerprint: policy.fingerprint }), policy)
  }),

  statement('I5', 'reads, then inserts', {
    async claim(work, of, birth) {
      const { database, tx } = work
      if (database.records.seen(of.id, tx) !== undefined) return STATEMENTS.claim(work, of, birth)
      const pause = work.pause('claim.locks')
      if (pause !== undefined) await pause
      const row = freshRow(database, of, birth)
      if (!database.records.locked(of.id, tx, 'update')) database.records.put(of.id, row, tx)
      return {
        view: { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false },
        claimed: claimedOf(row),
      }
    },
    complete: lateInsert,
  }),

  statement('I11, 14', 'tokens start again after a sweep', {
    async claim(work, of, birth) {
      const outcome = await STATEMENTS.claim(work, of, birth)
      const row = work.database.records.seen(of.id, work.tx)
      if (outcome.claimed === null || row === undefined) return outcome
      work.database.records.put(of.id, { ...row, token: 1, life: 1 }, work.tx)
      return { ...outcome, claimed: { ...outcome.claimed, token: '1', life: '1' } }
    },
  }),

  statement(
    'I13',
    'decides expiry by the clock of the process',
    { renew: (work, of, seen) => renewAnyway(work, of, seen) },
    (view, policy) => decide(view.record === null ? view : withRecord(view, older(view.record)), policy),
  ),

  statement('I18', 'a large answer leaves no record', {
    async complete(work, params) {
      await STATEMENTS.complete(work, params)
      if (!params.answer.kept) work.database.records.put(params.claim.id, undefined, work.tx)
    },
  }),

  statement('I21', 'locks outlive their transaction', {
    async claim(work, of, birth) {
      const outcome = await STATEMENTS.claim(work, of, birth)
      if (outcome.view.inserted) work.database.advisory.set(of.fingerprintLock, work.database.begin())
      return outcome
    },
  }),

  statement('3', 'refuses without reading again', {
    async claim(work, of, birth) {
      const outcome = await claimInOne(work, of, birth)
      return { ...outcome, view: { ...outcome.view, reread: true } }
    },
  }),

  statement('3', 'locks and reads in one statement', {
    async claim(work, of, birth) {
      const outcome = await claimInOne(work, of, birth)
      const { inserted, sameRunning, otherRunning, record } = outcome.view
      if (inserted || sameRunning || otherRunning || record !== null) return outcome
      const row = freshRow(work.database, of, birth)
      return { view: { ...outcome.view, inserted: true }, claimed: claimedOf(row) }
    },
    complete: lateInsert,
  }),

  statement('41', 'a batch claims without the try-lock', {
    async claimBatch({ database, tx }, claims) {
      const won = new Map<string, Claimed>()
      for (const of of claims) {
        const row = freshRow(database, of, BORN_COMPLETED)
        if (await database.records.insert(of.id, row, tx)) won.set(of.id, claimedOf(row))
      }
      return won
    },
  }),

  statement('45', 'a missing answer counts as expired', {
    async claim(work, of, birth) {
      const outcome = await STATEMENTS.claim(work, of, birth)
      const { record } = outcome.view
      return {
        ...outcome,
        view: record === null ? outcome.view : withRecord(outcome.view, withoutAnswer(work, of.id, record)),
      }
    },
    reread(work, id) {
      const record = STATEMENTS.reread(work, id)
      return record === null ? null : withoutAnswer(work, id, record)
    },
    renew: (work, of, seen) => renewAnyway(work, of, seen),
  }),
]

/** Inserts the record at the end of the work, which is too late to refuse the effect. */
async function lateInsert(work: Work, params: Parameters<typeof STATEMENTS.complete>[1]): Promise<void> {
  const { database, tx } = work
  if (database.records.slots.get(params.claim.id)?.holder === tx) return STATEMENTS.complete(work, params)
  await database.records.insert(params.claim.id, freshRow(database, params.claim, BORN_COMPLETED), tx)
}

async function renewAnyway({ database, tx }: Work, of: Claim, seen: StoredRecord): Promise<Claimed | null> {
  const row = await database.records.lock(of.id, tx, 'update')
  if (row === undefined || String(row.token) !== seen.token) return null
  const next = newLife(database, row, of, BORN_COMPLETED)
  database.records.put(of.id, next, tx)
  return claimedOf(next)
}

function withRecord(view: ClaimView, record: StoredRecord): ClaimView {
  return { ...view, record }
}

function older(record: StoredRecord): StoredRecord {
  return { ...record, expiresInMs: record.expiresInMs - SKEW_MS, forgetInMs: record.forgetInMs - SKEW_MS }
}

function withoutAnswer({ database, tx }: Work, id: string, record: StoredRecord): StoredRecord {
  const there = database.answers.seen(answerKey(id, Number(record.token)), tx) !== undefined
  return there || record.state !== 'completed' ? record : { ...record, expiresInMs: -1 }
}
