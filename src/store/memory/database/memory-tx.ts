import { onceError } from '../../../errors.ts'
import type { Row, TakeTurn } from '../../store.ts'
import type { Connection, Work } from './connection.ts'
import { uniqueViolation } from './failure.ts'

/** Selects rows: those whose columns equal these, or those for which the function returns true. */
export type Where = Row | ((row: Row) => boolean)
export type Patch = Row | ((row: Row) => Row)

/** The transaction of the in-memory store. It offers enough of a database to test a handler. */
export interface MemoryTx {
  insert(table: string, row: Row): Promise<Row>
  /** Locks the rows that it changes, waits for other transactions that change them, and returns the changed rows. */
  update(table: string, where: Where, patch: Patch): Promise<readonly Row[]>
  rows(table: string): Promise<readonly Row[]>
}

const connections = new WeakMap<MemoryTx, Connection>()

/** Creates a handle on the connection's transaction. After `revoke`, the handle no longer reaches the connection. */
export function memoryTx(connection: Connection, takeTurn?: TakeTurn): { readonly tx: MemoryTx; revoke(): void } {
  let revoked = false
  const through = <T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> => {
    const send = (): Promise<T> =>
      revoked ? Promise.reject(onceError('ONCE_TX_CLOSED')) : connection.statement(label, body)
    return takeTurn?.(send) ?? send()
  }
  const tx: MemoryTx = {
    insert: (table, row) => through('tx.insert', (work) => insertRow(work, table, row)),
    update: (table, where, patch) => through('tx.update', (work) => updateRows(work, table, where, patch)),
    rows: (table) => through('tx.rows', ({ database, tx }) => copies(database.table(table).rows(tx))),
  }
  connections.set(tx, connection)
  return {
    tx,
    revoke() {
      revoked = true
      connections.delete(tx)
    },
  }
}

export function connectionOf(tx: MemoryTx): Connection | undefined {
  return connections.get(tx)
}

export async function insertRow(work: Work, table: string, row: Row): Promise<Row> {
  const { database, tx } = work
  const columns = database.unique[table]
  const key = columns === undefined ? String(database.next()) : keyOf(columns, row)
  if (!(await database.table(table).insert(key, { ...row }, tx))) throw uniqueViolation(table)
  tx.written += 1
  await database.triggers[table]?.(work, row)
  return { ...row }
}

export async function updateRows({ database, tx }: Work, name: string, where: Where, patch: Patch): Promise<Row[]> {
  const table = database.table(name)
  const columns = database.unique[name]
  const changed: Row[] = []
  for (const [key, seen] of table.rows(tx)) {
    if (!matches(where, seen)) continue
    // After a wait, READ COMMITTED evaluates the condition again on the newest version of the row.
    const row = await table.lock(key, tx, 'update', (row) => matches(where, row))
    if (row === undefined) continue
    const next = typeof patch === 'function' ? patch({ ...row }) : { ...row, ...patch }
    if (columns !== undefined && keyOf(columns, next) !== key) {
      throw onceError('ONCE_UNSUPPORTED', { detail: 'The in-memory store cannot change a unique column' })
    }
    table.put(key, next, tx)
    changed.push({ ...next })
  }
  tx.written += changed.length
  return changed
}

function matches(where: Where, row: Row): boolean {
  if (typeof where === 'function') return where({ ...row })
  return Object.entries(where).every(([column, value]) => row[column] === value)
}

function keyOf(columns: readonly string[], row: Row): string {
  return JSON.stringify(columns.map((column) => row[column] ?? null))
}

function copies(rows: [string, Row][]): Row[] {
  return rows.map(([, row]) => ({ ...row }))
}
