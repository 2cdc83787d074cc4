import { onceError } from '../errors.ts'
import { invalid, refuseUnknown } from '../options.ts'
import { checkColumns, checkRowKey, type Columns } from './columns.ts'
import { runnerOf, type SqlRunner } from './runner.ts'
import { compareStatement, insertStatement } from './statement.ts'

/** `differs`: a row with this key exists, and the named columns have other values. Nothing was changed. */
export type Inserted = { readonly is: 'inserted' | 'existed' } | { readonly is: 'differs'; readonly columns: string[] }

export interface InsertOnceOptions {
  /** The columns of a unique constraint or a primary key. */
  unique: readonly string[]
}

const OPTIONS = new Set(['unique'])
/** A row that is deleted between the insert and the look at it is inserted again, at most this often. */
const TRIES_MAX = 3

/**
 * Inserts a row, unless a row with the same key exists, and says which of the two happened. A retry finds the row that
 * the first attempt inserted. If two attempts run at once, the unique constraint decides.
 *
 * @example
 * const id = deterministicId('invoices', customer, month)
 * const { is } = await insertOnce(tx, 'invoices', { id, customer, total }, { unique: ['id'] })
 */
export async function insertOnce(
  tx: unknown,
  table: string,
  row: Columns,
  options: InsertOnceOptions,
): Promise<Inserted> {
  checkColumns('the row', row)
  refuseUnknown(options, OPTIONS, 'insertOnce()')
  if (!Array.isArray(options?.unique)) throw invalid('insertOnce() needs { unique: [...columns] }')
  const unique: readonly string[] = options.unique
  const where = checkRowKey('unique', Object.fromEntries(unique.map((name) => [name, row[name]])))
  const runner = runnerOf(tx)
  const insert = insertStatement(runner.dialect, table, row, unique)
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if ((await runner.query(insert.text, insert.values)).length > 0) return { is: 'inserted' }
    const columns = await differences(runner, table, where, row)
    if (columns) return columns.length === 0 ? { is: 'existed' } : { is: 'differs', columns }
  }
  throw onceError('ONCE_CONFLICT', { detail: 'The row was inserted and deleted by others again and again' })
}

/** The names of the columns whose values differ. Null: there is no such row. */
export async function differences(
  runner: SqlRunner,
  table: string,
  where: Columns,
  expect: Columns,
): Promise<string[] | null> {
  const { text, values } = compareStatement(runner.dialect, table, where, expect)
  const [found] = await runner.query(text, values)
  if (!found) return null
  // SQLite has no booleans.
  return Object.keys(expect).filter((_, i) => found[`c${i}`] !== true && Number(found[`c${i}`]) !== 1)
}
