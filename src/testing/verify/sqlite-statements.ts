import { Handles } from '../../store/sqlite/tx.ts'
import { Turn } from '../../store/sqlite/turn.ts'
import { Patches } from '../simulate/patches.ts'
import type { Boundaries } from './boundaries.ts'
import { statementLabel } from './label.ts'

/**
 * Makes boundaries of the statements and commits of every SQLite store in this process, because they pass no socket.
 * `isOurs`: an instance is committing, and has a boundary of its own.
 */
export function watchSqlite(boundaries: Boundaries, isOurs: () => boolean): void {
  const { open } = Handles.prototype
  Handles.prototype.open = function (...args) {
    const handle = open.apply(this, args)
    new Patches().wrap(
      handle.tx,
      'query',
      (query) => (sql, values) => boundaries.around(statementLabel(sql), () => query(sql, values)),
    )
    return handle
  }
  const { commit } = Turn.prototype
  Turn.prototype.commit = function () {
    return isOurs() ? commit.call(this) : boundaries.around('commit', () => commit.call(this))
  }
}
