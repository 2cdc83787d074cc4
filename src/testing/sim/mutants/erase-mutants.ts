import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import { client, decision, statement, type Mutant } from './mutant.ts'
import { decide } from '../../../lifecycle/decide.ts'
import { isErased } from '../../../lifecycle/record.ts'

const FOUND_WHERE_OPERATIONS_ARE_ERASED: readonly Mutant[] = [
  statement('I14', 'an erasure that leaves no tombstone', {
    eraseRecords(work, params) {
      const { database, tx } = work
      const erased = STATEMENTS.eraseRecords(work, params)
      for (const id of erased.ids) database.records.put(id, undefined, tx)
      return erased
    },
  }),

  statement('I35', 'a tombstone that `rerun` may renew', {
    eraseRecords(work, params) {
      const { database, tx } = work
      const erased = STATEMENTS.eraseRecords(work, params)
      for (const id of erased.ids) {
        const row = database.records.seen(id, tx)
        if (row) database.records.put(id, { ...row, expiresAt: Math.min(row.expiresAt, database.now()) }, tx)
      }
      return erased
    },
  }),

  statement('I35', 'an erasure of operations that run', {
    eraseRecords(work, params) {
      const { database, tx } = work
      for (const [id, row] of database.records.rows(tx)) {
        const isMeant = row.scope === params.scope && (params.id ?? id) === id
        if (isMeant && row.state === 'inProgress' && !database.records.locked(id, tx, 'update'))
          database.records.put(id, { ...row, fingerprintVersion: 0, expiresAt: row.forgetAt }, tx)
      }
      return STATEMENTS.eraseRecords(work, params)
    },
  }),

  decision('I13', 'a tombstone is a key like any other', (view, policy) => {
    const { record } = view
    const isTombstone = record?.state === 'completed' && isErased(record)
    return isTombstone ? { do: 'renew', record } : decide(view, policy)
  }),

  client('I35', 'an erasure that the memory of its process survives', (store, process) => ({
    ...store,
    erasure: {
      ...store.erasure,
      operations: (params) => {
        const { cache } = process.once.core
        cache.clear = () => {}
        return store.erasure.operations(params)
      },
    },
  })),
]

/** Mutants of the erasure of operations. */
export const ERASE_MUTANTS: readonly Mutant[] = FOUND_WHERE_OPERATIONS_ARE_ERASED.map((mutant) => ({
  ...mutant,
  weather: 'erasures',
}))
