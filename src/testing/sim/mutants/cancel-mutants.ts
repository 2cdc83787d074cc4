import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { SimProcess } from '../process.ts'
import type { Cancellation } from '../../../store/cancellation.ts'
import type { CancelParams } from '../../../store/outbox.ts'
import { client, statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const LOOKED_MS = 5

const FOUND_WHERE_EVENTS_ARE_CANCELLED: readonly Mutant[] = [
  statement('I31', 'a take that writes nothing', {
    async takeDelayed({ database, tx }, ids) {
      const isCancelled = (id: string): boolean => database.delayed.seen(id, tx)?.state === 'cancelled'
      return ids.filter(isCancelled).map((id) => ({ id, cancelled: true }))
    },
  }),

  statement('I31', 'a take that does not see who is cancelling', {
    async takeDelayed(work, ids) {
      return (await STATEMENTS.takeDelayed(work, ids)).filter(({ cancelled }) => cancelled)
    },
  }),

  client('I31', 'a cancellation that looks first and writes later', (store, process) => ({
    ...store,
    outbox: { ...store.outbox, cancel: (of) => lookFirst(process, of) },
  })),

  statement('I31', 'who comes too late leaves no trace of it', {
    async cancel(work, params) {
      const before = work.database.delayed.seen(params.id, work.tx)
      const answer = await STATEMENTS.cancel(work, params)
      if (answer === 'due' && before !== undefined) work.database.delayed.put(params.id, before, work.tx)
      return answer
    },
  }),

  statement('I7', 'what somebody may be cancelling is taken for cancelled', {
    async takeDelayed(work, ids) {
      return (await STATEMENTS.takeDelayed(work, ids)).map(({ id }) => ({ id, cancelled: true }))
    },
  }),
]

async function lookFirst(process: SimProcess, { id }: CancelParams): Promise<Cancellation> {
  const { database } = process.world
  if (database.delayed.seen(id, null)?.state === 'taken') return 'due'
  await process.sleep(LOOKED_MS)
  const tx = database.begin({ interactive: false })
  const row = await database.delayed.lock(id, tx, 'update')
  if (row !== undefined) database.delayed.put(id, { ...row, state: 'cancelled' }, tx)
  tx.commit()
  return 'cancelled'
}

/** Mutants of the cancellation of delayed events. */
export const CANCEL_MUTANTS: readonly Mutant[] = FOUND_WHERE_EVENTS_ARE_CANCELLED.map((mutant) => ({
  ...mutant,
  relays: true,
  consumers: true,
  weather: 'cancels',
}))
