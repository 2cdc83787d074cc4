import type { Row } from '../../store.ts'
import type { PgStatement } from './driver.ts'
import type { PgDriverContext } from './context.ts'
import type { ColumnField } from './columns.ts'
import type { PgLink } from './link.ts'
import { isPlanStale, isPreparedStatementLost, markTransient } from './sqlstate.ts'

/** The result of pg. */
export interface PgResult {
  readonly command: string
  readonly rowCount: number | null
  readonly oid: number | null
  readonly rows: readonly Row[]
  readonly fields: readonly ColumnField[]
}

/** Runs the statement under a name, with the same result as pg. If only the name was at fault, it runs again. */
export function queryFrequent(link: PgLink, context: PgDriverContext, statement: PgStatement): Promise<PgResult> {
  return link.run([statement], context, 'theirs').then(({ failedAt, error, rows, tag, columns }) => {
    if (failedAt < 0) return resultOf(tag, rows[0] ?? [], columns?.fields ?? [])
    // pg does the same for its promises: the original stack ends at the socket.
    if (error instanceof Error) Error.captureStackTrace(error)
    const lost = isPreparedStatementLost(error)
    if (lost) context.prepared = false
    if (lost || isPlanStale(error)) markTransient(error)
    throw error
  })
}

/** `INSERT 0 1`, `UPDATE 3`, `BEGIN`: a command, an obsolete oid, and the number of rows. */
const TAG = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/

function resultOf(tag: string, rows: readonly Row[], fields: readonly ColumnField[]): PgResult {
  const [, command = '', first, second] = TAG.exec(tag) ?? []
  const count = second ?? first
  return {
    command,
    rowCount: count === undefined ? null : Number(count),
    oid: second === undefined ? null : Number(first),
    rows,
    fields,
  }
}
