import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import { heldKey } from '../../../store/memory/database/rows.ts'
import { statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const FOUND_WITH_RELEASES: readonly Mutant[] = [
  statement('I8', 'a release lets everybody of a line go at once', {
    async settleParked(work, params) {
      const settled = await STATEMENTS.settleParked(work, params)
      const { database, tx } = work
      const line = database.held
        .rows(tx)
        .filter(([, row]) => row.destination === params.destination && params.aggregateIds.includes(row.aggregateId))
      for (const [key, { state }] of line.toReversed()) {
        const row = state === 'waiting' ? await database.held.lock(key, tx, 'update') : undefined
        if (row !== undefined) database.held.put(key, { ...row, dueAt: database.now() - row.seq }, tx)
      }
      return settled
    },
  }),

  statement('I8', 'a release of one event leaves its line where it is', {
    async settleParked(work, params) {
      const { database, tx } = work
      const { destination, shard, aggregateIds, release } = params
      const last = database.held
        .rows(tx)
        .flatMap(([, row]) => (row.state === 'parked' && row.destination === destination ? [row] : []))
        .filter((row) => row.shard === shard && aggregateIds.includes(row.aggregateId))
        .at(-1)
      if (!release || last === undefined) return STATEMENTS.settleParked(work, params)
      const key = heldKey(destination, shard, last.seq)
      const row = await database.held.lock(key, tx, 'update', ({ state }) => state === 'parked')
      if (row === undefined) return { released: 0, skipped: 0, more: false }
      database.held.put(key, { ...row, state: 'waiting', attempts: 0, dueAt: database.now(), reason: null }, tx)
      return { released: 1, skipped: 0, more: false }
    },
  }),

  statement('I7', 'nobody looks after what was parked behind a line that is gone', {
    unparkOrphans: async () => 0,
    settleHeld: (work, params) => STATEMENTS.settleHeld(work, { ...params, released: [] }),
  }),

  statement('I8', 'puts in line who stands behind a head', {
    async settleHeld(work, params) {
      const { database, tx } = work
      for (const { shard, aggregateId } of params.released ?? []) {
        for (const [key, row] of database.held.rows(tx)) {
          if (row.shard !== shard || row.aggregateId !== aggregateId || row.destination !== params.destination) continue
          if (row.state !== 'parked' || row.reason !== null) continue
          const known = await database.held.lock(key, tx, 'update')
          if (known !== undefined) database.held.put(key, { ...known, state: 'waiting' }, tx)
        }
      }
      return STATEMENTS.settleHeld(work, params)
    },
  }),
]

/** Mutants of an operator's actions on parked events. */
export const RELEASE_MUTANTS: readonly Mutant[] = FOUND_WITH_RELEASES.map((mutant) => ({
  ...mutant,
  relays: true,
  releases: true,
}))
