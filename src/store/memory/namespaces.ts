import { onceError } from '../../errors.ts'
import { NAMESPACES_MAX } from '../../limits.ts'
import { adoptedElsewhere } from '../namespaced/adopted.ts'
import type { NamespaceRow, Namespaces } from '../namespaces.ts'
import type { Session } from '../store.ts'
import { autocommit, inside } from './client.ts'
import type { Client } from './client.ts'
import type { Work } from './database/connection.ts'
import { connectionOf } from './database/memory-tx.ts'
import type { MemoryTx } from './database/memory-tx.ts'

/** Names the namespace with number 0, unless it has a name. */
export async function adoptNamespace(client: Client, name: string): Promise<void> {
  const { register, list } = memoryNamespaces(client)
  const [first] = await list()
  if (first !== undefined && first.name !== name) throw adoptedElsewhere(name, first.name)
  await register({ name })
}

/**
 * A transaction that registers a namespace blocks other registrations until it ends. Registrations outside a
 * transaction poll at this interval, up to this many times.
 */
const WAIT_MS = 20
const WAITS_MAX = 250

type One = <T>(label: string, body: (work: Work) => T | Promise<T>) => Promise<T>

function oneIn(session: Session<MemoryTx>): One {
  const connection = connectionOf(session.tx)
  if (connection === undefined) throw onceError('ONCE_TX_REQUIRED')
  return (label, body) => inside(connection, label, body)
}

/** Namespaces in memory. No rows from an earlier version exist, so every name is free. */
export function memoryNamespaces(client: Client): Namespaces<MemoryTx> {
  const { statements } = client
  const alone: One = (label, body) => autocommit(client, label, body)
  const list = (one: One): Promise<readonly NamespaceRow[]> =>
    one('namespace.list', (work) => statements.listNamespaces(work))
  const pause = (): Promise<void> => new Promise((resolve) => void client.pool.database.clock.after(WAIT_MS, resolve))
  const register = async (name: string, one: One, wait: () => Promise<void>): Promise<number> => {
    for (let waits = 0; waits < WAITS_MAX; waits++) {
      const no = await one('namespace.register', (work) => statements.registerNamespace(work, name))
      if (no !== null) return no
      if ((await list(one)).length >= NAMESPACES_MAX) throw onceError('ONCE_NAMESPACES_FULL')
      await wait()
    }
    throw onceError('ONCE_CONFLICT', { detail: 'A transaction that registers another namespace is still open' })
  }
  return {
    register: ({ name }) => register(name, alone, pause),
    async registerInside(session, { name }) {
      const one = oneIn(session)
      // The transaction waits for a lock of the database, so the database detects deadlocks.
      return register(name, one, () => one('namespace.lock', (work) => statements.lockNamespaces(work)))
    },
    list: () => list(alone),
    listInside: async (session) => list(oneIn(session)),
    claim: () => Promise.resolve(true),
  }
}
