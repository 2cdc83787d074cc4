import { invalid, refuseUnknown } from '../options.ts'
import { checkColumns, checkRowKey, type Columns, jsonRow } from './columns.ts'
import { differences } from './insert-once.ts'
import { runnerOf } from './runner.ts'
import { updateStatement } from './statement.ts'

/**
 * `already`: the row has every new value, so an earlier attempt made this change. `stale`: the row is in another state.
 * `missing`: there is no such row. In these three cases nothing was changed.
 */
export type Updated = 'updated' | 'already' | 'stale' | 'missing'

export interface UpdateIfOptions {
  /** The new values. They are values, never increments: a repeated increment counts twice. */
  set: Columns
  /** The columns that name one row. */
  where: Columns
  /** The state or version that the row must have. */
  expect: Columns
}

const OPTIONS = new Set(['set', 'where', 'expect'])

/**
 * Changes one row if it still has the expected state or version, in one statement. Set the version or the state
 * together with the values. Otherwise a repeated change looks like a new one.
 *
 * @example
 * const change = { set: { state: 'paid' }, where: { id }, expect: { state: 'open' } }
 * const is = await updateIf(tx, 'orders', change) // 'updated', and 'already' when it is repeated
 */
export async function updateIf(tx: unknown, table: string, options: UpdateIfOptions): Promise<Updated> {
  if (typeof options !== 'object' || options === null) throw invalid('updateIf() needs { set, where, expect }')
  refuseUnknown(options, OPTIONS, 'updateIf()')
  const set = checkColumns('set', options.set)
  const where = checkRowKey('where', options.where)
  const expect = checkColumns('expect', options.expect)
  if (!Object.keys(expect).some((name) => changes(name, set, expect)))
    throw invalid('set must change a column of expect, or a repeated update would run again')
  const runner = runnerOf(tx)
  const { text, values } = updateStatement(runner.dialect, table, { set, where, expect })
  const changed = (await runner.query(text, values)).length
  // The caller's transaction rolls back with this error.
  if (changed > 1) throw invalid(`where must name one row, but it named ${changed}`)
  if (changed === 1) return 'updated'
  const differing = await differences(runner, table, where, set)
  if (!differing) return 'missing'
  return differing.length === 0 ? 'already' : 'stale'
}

function changes(name: string, set: Columns, expect: Columns): boolean {
  if (!Object.hasOwn(set, name)) return false
  return jsonRow({ value: set[name] }) !== jsonRow({ value: expect[name] })
}
