import type { Work } from '../../store/memory/database/connection.ts'
import type { Statements } from '../../store/memory/statements/index.ts'

/** A note that a statement leaves on its transaction. The key is looked up later, by identity. */
export interface RawNote {
  readonly op: string
  readonly id: string
  readonly token: string | null
}

/**
 * Wraps the statements so that each one notes its name and the token it was called with. `blind` is called when a claim
 * counts as up to date but missed a committed record.
 */
export function observed(statements: Statements, blind: (id: string) => void): Statements {
  const note = (work: Work, op: string, id: string, token: string | null): void => {
    work.tx.notes.push({ op, id, token } satisfies RawNote)
  }
  return {
    ...statements,
    async claim(work, of, birth) {
      note(work, 'claim', of.id, null)
      const outcome = await statements.claim(work, of, birth)
      const { inserted, record, reread } = outcome.view
      const saw = inserted || record !== null || !reread
      if (!saw && work.database.records.seen(of.id, work.tx) !== undefined) blind(of.id)
      return outcome
    },
    claimBatch(work, claims, rerun) {
      for (const of of claims) note(work, 'claimBatch', of.id, null)
      return statements.claimBatch(work, claims, rerun)
    },
    renew(work, of, seen) {
      note(work, 'renew', of.id, null)
      return statements.renew(work, of, seen)
    },
    takeOver(work, params) {
      note(work, 'takeOver', params.claim.id, null)
      return statements.takeOver(work, params)
    },
    completeLeased(work, params) {
      note(work, 'completeLeased', params.claim.id, params.claimed.token)
      return statements.completeLeased(work, params)
    },
    refuseLeased(work, params) {
      note(work, 'refuseLeased', params.id, params.token)
      return statements.refuseLeased(work, params)
    },
    heartbeat(work, leases, leaseMs) {
      for (const { id, token } of leases) note(work, 'heartbeat', id, token)
      return statements.heartbeat(work, leases, leaseMs)
    },
    release(work, held) {
      note(work, 'release', held.id, held.token)
      return statements.release(work, held)
    },
    suspend(work, held) {
      note(work, 'suspend', held.id, held.token)
      return statements.suspend(work, held)
    },
    startStep(work, params) {
      note(work, 'startStep', params.id, params.token)
      return statements.startStep(work, params)
    },
    finishStep(work, params) {
      note(work, 'finishStep', params.id, params.token)
      return statements.finishStep(work, params)
    },
  }
}
