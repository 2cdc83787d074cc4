import type { Erasure } from '../erasure.ts'
import { autocommit, type Client } from './client.ts'
import type { MemoryDatabase } from './database/database.ts'

/** Erasure in memory. Every method is one statement that commits by itself. */
export function memoryErasure(client: Client, database: MemoryDatabase): Erasure {
  const { statements } = client
  return {
    operations: (params) => autocommit(client, 'erase', (work) => statements.eraseRecords(work, params)),
    events: (params) => autocommit(client, 'erase.events', (work) => statements.eraseEvents(work, params)),
    letters: (params) => autocommit(client, 'erase.letters', (work) => statements.eraseLetters(work, params)),
    writers: () => Promise.resolve(Array.from(database.open, ({ number }) => String(number))),
  }
}
