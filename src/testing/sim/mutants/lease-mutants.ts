import { decide } from '../../../lifecycle/decide.ts'
import type { Work } from '../../../store/memory/database/connection.ts'
import type { MemoryDatabase } from '../../../store/memory/database/database.ts'
import { claimedOf } from '../../../store/memory/database/rows.ts'
import { nextToken } from '../../../store/memory/statements/claim.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import { putFinished } from '../../../store/memory/statements/steps.ts'
import { newestToken, statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const AHEAD_MICROS = 5_000_000

/** Mutants of leases, fences, steps and the sweeper. */
export const LEASE_MUTANTS: readonly Mutant[] = [
  statement('I1', 'the fence forgets the token', {
    completeLeased(work, params) {
      const token = newestToken(work, params.claim.id)
      return STATEMENTS.completeLeased(work, { ...params, claimed: { ...params.claimed, token } })
    },
  }),

  statement('1', 'the fence counts rows, after COMMIT is on its way', {
    completeLeased: (work, params) => STATEMENTS.completeLeased(work, params).catch(() => undefined),
  }),

  statement(
    'I5',
    'takes over a lease that has not lapsed',
    {
      async takeOver(work, params) {
        const { database, tx } = work
        const row = await database.records.lock(params.claim.id, tx, 'update')
        if (row?.state !== 'inProgress') return STATEMENTS.takeOver(work, params)
        const leaseUntil = database.now() + params.leaseMs * 1000
        const next = { ...row, token: nextToken(database, row.token), attempt: row.attempt + 1, leaseUntil }
        database.records.put(row.id, next, tx)
        return claimedOf(next)
      },
    },
    (view, policy) => {
      const { record } = view
      return decide(record?.state === 'inProgress' ? { ...view, record: { ...record, leaseLeftMs: 0 } } : view, policy)
    },
  ),

  statement('I10', 'the heartbeat forgets the token', {
    heartbeat(work, leases, leaseMs) {
      const newest = leases.map(({ id }) => ({ id, token: newestToken(work, id) }))
      return STATEMENTS.heartbeat(work, newest, leaseMs)
    },
  }),

  statement('I10', 'the release forgets the token', {
    release: (work, held) => STATEMENTS.release(work, { ...held, token: newestToken(work, held.id) }),
  }),

  statement('I10', 'a finished step forgets the token', {
    finishStep: (work, params) => STATEMENTS.finishStep(work, { ...params, token: newestToken(work, params.id) }),
  }),

  statement('17', 'a step is written without locking the record', {
    async finishStep(work, params) {
      const row = work.database.records.seen(params.id, work.tx)
      if (row === undefined || row.state !== 'inProgress' || String(row.token) !== params.token) return false
      await putFinished(work, params)
      return true
    },
  }),

  statement('I12', 'a release opens what was closed', {
    async release({ database, tx }, { id }) {
      const row = await database.records.lock(id, tx, 'update')
      if (row !== undefined) database.records.put(id, { ...row, state: 'inProgress', leaseUntil: database.now() }, tx)
      return row !== undefined
    },
  }),

  statement('I14', 'the sweeper goes by a clock of its own', {
    sweepRecords: (work, limit) => STATEMENTS.sweepRecords(ahead(work), limit),
  }),

  statement('I14, 15', 'the sweeper removes what is in progress', {
    suspendLapsed({ database, tx }) {
      const now = database.now()
      let removed = 0
      for (const [id, row] of database.records.rows(tx)) {
        if (row.state !== 'inProgress' || (row.leaseUntil ?? now) > now || database.records.locked(id, tx, 'update'))
          continue
        database.records.put(id, undefined, tx)
        removed += 1
      }
      return removed
    },
  }),

  statement('I16', 'steps are not recorded', { finishStep: () => Promise.resolve(true) }),

  statement('16', 'forgets which calls were begun', {
    steps: (work, id, life) => STATEMENTS.steps(work, id, life).filter(({ state }) => state === 'done'),
  }),

  statement('I17', 'the life changes with the attempt', {
    async takeOver(work, params) {
      const claimed = await STATEMENTS.takeOver(work, params)
      return claimed === null ? null : { ...claimed, life: claimed.token }
    },
  }),
]

function ahead(work: Work): Work {
  const { database } = work
  const later = Object.create(database, { now: { value: () => database.now() + AHEAD_MICROS } }) as MemoryDatabase
  return { ...work, database: later }
}
