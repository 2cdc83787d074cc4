import { memoryStore, type MemoryTx } from '../../src/entry/testing.ts'
import { instancesOn, type Bed, type Deadline, type EffectRow, type Made, type Place } from './bed.ts'
import type { Seen, SeenRecord } from './judge/seen.ts'

const STATES: Readonly<Record<string, SeenRecord['state']>> = {
  inProgress: 'running',
  completed: 'completed',
  unknown: 'unknown',
}

/** A database of its own for every program: there is nothing to share. */
export function memoryBed(deadline?: Deadline): Bed {
  return {
    store: 'memory',
    place: () => freshPlace(deadline),
    address: null,
    probe: async () => {},
    close: async () => {},
  }
}

async function freshPlace(deadline?: Deadline): Promise<Place> {
  const store = memoryStore({ unique: { effect: ['uid'] } })
  await store.schema.migrate()
  await store.transaction((tx) => tx.insert('effect', { uid: 'taken', program: '' }))
  const { database } = store
  const recordOf = (id: string): SeenRecord[] => {
    const record = database.records.seen(id, null)
    if (record === undefined) return []
    const answer = database.answers.rows(null).find(([, row]) => row.id === id && row.token === record.token)?.[1]
    const body = answer?.body ? Buffer.from(answer.body).toString() : null
    return [{ id, state: STATES[record.state] ?? 'unknown', answer: answer ? { status: answer.status, body } : null }]
  }
  const made = instancesOn(store, 0, deadline)
  return {
    title: 'memory',
    ...made,
    statement: (row) => ({ sql: 'insert into effect', values: [plain(row)] }),
    write: (tx: MemoryTx, row) => tx.insert('effect', plain(row)),
    run: () => Promise.reject(new Error('the memory store has no statements')),
    own: (work) => store.transaction(work),
    async read({ program, ids }): Promise<Seen> {
      const ours = (row: Record<string, unknown>): boolean => row['program'] === program
      return {
        rows: store
          .rows('effect')
          .filter(ours)
          .map((row) => String(row['uid'])),
        events: store
          .events()
          .map(({ payload }) => JSON.parse(payload) as Made)
          .filter((made) => made.program === program)
          .map(({ uid }) => uid),
        records: ids.flatMap(recordOf),
        applied: database.inbox.rows(null).map(([, { message }]) => message),
        parked: database.letters.rows(null).map(([, { message }]) => message),
      }
    },
    // Every promise of the process pays for an instance that is open.
    leave: () => [made.alone, ...Object.values(made.instances)].forEach((instance) => void instance.close()),
  }
}

function plain({ uid, program, fault }: EffectRow): Record<string, unknown> {
  return { uid: fault === 'unique' ? 'taken' : uid, program }
}
