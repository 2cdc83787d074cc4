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

/**
 * Runs the statement under a name, with the same result as pg: one write, and its columns are described once per
 * connection. If only the name was at fault, it runs again. `gaveName`: who chose the name. A name of the handler's that
 * the server does not have says nothing about ours.
 */
export function queryPrepared(
  link: PgLink,
  context: PgDriverContext,
  statement: PgStatement,
  gaveName: 'us' | 'handler',
): Promise<PgResult> {
  return link.run([statement], context, 'theirs').then(({ failedAt, error, rows, tag, columns }) => {
    if (failedAt < 0) return resultOf(tag, rows[0] ?? [], columns?.fields ?? [])
    // pg does the same for its promises: the original stack ends at the socket.
    if (error instanceof Error) Error.captureStackTrace(error)
    const lost = gaveName === 'us' && isPreparedStatementLost(error)
    if (lost) context.prepared = false
    if (lost || isPlanStale(error)) markTransient(error)
    throw error
  })
}

/** A statement under the handler's own name, without other options of pg. */
export function isNamed(config: unknown): config is { name: string; text: string; values?: readonly unknown[] } {
  if (typeof config !== 'object' || config === null) return false
  // Also members of a prototype: another kind of query may have its options there.
  for (const key in config) if (key !== 'name' && key !== 'text' && key !== 'values') return false
  const { name, text, values } = config as Record<string, unknown>
  if (typeof name !== 'string' || typeof text !== 'string' || !(values === undefined || Array.isArray(values)))
    return false
  return name !== '' && name.length <= NAME_LENGTH_MAX && text !== ''
}

/** pg warns about longer names, and the server cuts them off. */
const NAME_LENGTH_MAX = 63
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
