import { isOnceError } from '../../errors.ts'
import { BATCH_REQUESTS_MAX } from '../../limits.ts'
import type { Batches, BatchSession, Claim, Claimed, EffectsOutcome, Row, UserStatement } from '../store.ts'
import { complete } from './answer.ts'
import { claimOver } from './record.ts'
import { endsTransaction, isSavepoint } from './text.ts'
import type { Turn } from './turn.ts'
import type { Handles } from './tx.ts'
import type { Writer } from './writer.ts'

/** Many requests share one commit and one fsync. This is the fast path of an embedded store. */
export function sqliteBatches({ writer, handles }: { writer: Writer; handles: Handles }): Batches {
  return {
    limit: () => Promise.resolve(BATCH_REQUESTS_MAX),
    open: async ({ claims, deadlineMs, rerun }) => {
      const turn = await writer.take({ deadlineMs })
      try {
        const won = claimAll(turn, claims, rerun)
        // A request that lost is answered from an existing record. That record may belong to a turn that is not
        // committed yet.
        const again = won.size < claims.length && (await turn.restart())
        return { session: batchSession(turn, handles), won: again ? claimAll(turn, claims, rerun) : won }
      } catch (error) {
        await turn.rollback()
        throw error
      }
    },
  }
}

function batchSession(turn: Turn, handles: Handles): BatchSession {
  return {
    effects: async (statements) => runEffects(turn, handles, statements),
    complete: async (items) => {
      if (turn.rolledBack) return 'rolledBack'
      try {
        for (const item of items) complete(turn, { ...item, fenced: false })
        return await turn.commit()
      } finally {
        await turn.rollback()
      }
    },
    rollback: () => turn.rollback(),
  }
}

function claimAll(turn: Turn, claims: readonly Claim[], rerun: boolean): Map<string, Claimed> {
  const won = new Map<string, Claimed>()
  for (const claim of claims) {
    const { claimed } = claimOver(turn, claim, rerun)
    if (claimed) won.set(claim.id, claimed)
  }
  return won
}

/** Each statement sees the ones before it. SQLite would keep them after a failure, so we roll all of them back. */
function runEffects(turn: Turn, handles: Handles, statements: readonly UserStatement[]): EffectsOutcome {
  const rows: (readonly Row[])[] = []
  for (const [index, { sql, values }] of statements.entries()) {
    try {
      rows.push(handles.query(turn, sql, values, (text) => endsTransaction(text) || isSavepoint(text)).rows)
      // A running statement cannot be interrupted, so the deadline is checked after it.
      turn.check()
    } catch (error) {
      const late = isOnceError(error, 'ONCE_DEADLINE')
      // The deadline passed before this statement began, so no statement of the batch is to blame.
      const under = late && rows.length === index ? statements.length : index
      void turn.rollback()
      return late ? { kind: 'ended', index: under, late, error } : { kind: 'failed', index, error }
    }
  }
  return { kind: 'done', rows }
}
