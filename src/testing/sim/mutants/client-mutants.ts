import type { Answer } from '../../../lifecycle/answer.ts'
import type { MemoryStore } from '../../../store/memory/memory-store.ts'
import { connectionOf } from '../../../store/memory/database/memory-tx.ts'
import type { MemoryTx } from '../../../store/memory/database/memory-tx.ts'
import type { SqlBegun, Reading, SqlSession } from '../../../store/store.ts'
import { client } from './mutant.ts'
import type { Mutant } from './mutant.ts'

/** Mutants of how the store's client interprets the replies of the database. */
export const CLIENT_MUTANTS: readonly Mutant[] = [
  client('I2', 'answers before the commit is certain', (store) =>
    withSessions(store, (session) => {
      const complete = session.complete.bind(session)
      return { complete: (params) => complete(params).catch(() => 'committed' as const) }
    }),
  ),

  client('I3', 'writes the answer anew on a replay', (store) => ({
    ...withSessions(store, (session) => {
      const read = session.read.bind(session)
      return { read: async (params) => rewritten(await read(params)) }
    }),
    read: async (params) => rewritten(await store.read(params)),
  })),

  client('I15', 'keeps the rows of what failed', (store) =>
    withSessions(store, (session) => {
      const rollback = session.rollback.bind(session)
      return {
        async rollback() {
          const tx = connectionOf(session.tx)?.tx
          if (tx?.state === 'open') tx.commit()
          await rollback()
        },
      }
    }),
  ),

  client('I20', 'forgets to roll back', (store) => withSessions(store, () => ({ rollback: () => Promise.resolve() }))),

  client('I22', 'goes on when the store is away', (store) => ({
    ...store,
    async begin(params): Promise<SqlBegun<MemoryTx>> {
      try {
        return await store.begin(params)
      } catch {
        const session = await store.open(params)
        const view = { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false }
        return { session, view, claimed: { token: '1', life: '1', attempt: 1, answerDay: '2030-01-01' } }
      }
    },
  })),
]

export function withSessions(
  store: MemoryStore,
  wrong: (session: SqlSession<MemoryTx>) => Partial<SqlSession<MemoryTx>>,
): MemoryStore {
  return {
    ...store,
    async begin(params) {
      const begun = await store.begin(params)
      Object.assign(begun.session, wrong(begun.session))
      return begun
    },
  }
}

/** The same JSON value with different bytes. */
function rewritten(reading: Reading): Reading {
  const { answer } = reading
  if (answer === null || answer.body === null) return reading
  const value = JSON.parse(new TextDecoder().decode(answer.body)) as Record<string, unknown>
  const sorted = Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  return { ...reading, answer: { ...answer, body: new TextEncoder().encode(JSON.stringify(sorted)) } satisfies Answer }
}
