import { onceError } from '../../errors.ts'
import { NAMESPACES_MAX } from '../../limits.ts'
import { adoptedElsewhere, undecided } from '../namespaced/adopted.ts'
import type { NamespaceRow, Namespaces } from '../namespaces.ts'
import type { Row } from '../store.ts'
import { SEEN_NAMESPACES } from './namespace-tables.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Handles, SqlTx } from './tx.ts'
import type { Writer } from './writer.ts'

const FIND = 'select no from effectively_once_namespace where name = ?'
const LIST = 'select no, name from effectively_once_namespace order by no'
const NEXT = 'select coalesce(max(no) + 1, 0) as no from effectively_once_namespace'
const INSERT = 'insert into effectively_once_namespace (no, name) values (?, ?)'
const SETTLE = 'delete from effectively_once_unclaimed where kind = ? and name = ?'
const SETTLE_ALL = 'delete from effectively_once_unclaimed'
const UNSETTLED = 'select 1 from effectively_once_unclaimed where kind = ? and name = ?'

/** Namespaces on SQLite. With one writer, registrations cannot conflict. */
export function sqliteNamespaces(parts: { writer: Writer; reader: Reader; handles: Handles }): Namespaces<SqlTx> {
  const { writer, reader, handles } = parts
  return {
    async register({ name }) {
      // A known namespace does not need the writer.
      const [known] = await reader.all(FIND, [name])
      return known ? Number(known['no']) : writer.write((turn) => register(turn, name))
    },
    registerInside: async (session, { name }) => register(handles.turnOf(session.tx), name),
    list: async () => (await reader.all(LIST)).map(namespaceOf),
    listInside: async (session) => handles.turnOf(session.tx).all(LIST).map(namespaceOf),
    async claim({ no, kind, name }) {
      const unsettled = (await reader.all(UNSETTLED, [kind, name])).length > 0
      if (unsettled && no === 0) await writer.write((turn) => void turn.run(SETTLE, [kind, name]))
      return !unsettled || no === 0
    },
  }
}

function namespaceOf(row: Row): NamespaceRow {
  return { no: Number(row['no']), name: String(row['name']) }
}

function register(turn: Turn, name: string): number {
  const [known] = turn.all(FIND, [name])
  if (known) return Number(known['no'])
  const no = Number(turn.all(NEXT)[0]?.['no'])
  if (no >= NAMESPACES_MAX) throw onceError('ONCE_NAMESPACES_FULL')
  turn.run(INSERT, [no, name])
  return no
}

/** Decides which namespace owns the rows from before namespaces. */
export function settleNamespaces(turn: Turn, adopt: string | undefined): void {
  const seen = turn.all(SEEN_NAMESPACES).map((row) => String(row['name']))
  if (adopt === undefined && seen.length > 1) throw undecided(seen)
  const [only] = seen
  if (adopt === undefined && only !== undefined) turn.run(INSERT, [0, only])
}

/** The same as SQL, for people who apply it themselves. With several namespaces, the first statement fails. */
export function settledSql(adopt: string | undefined): readonly string[] {
  if (adopt === undefined)
    return [`insert into effectively_once_namespace (no, name) select 0, name from (${SEEN_NAMESPACES})`]
  return [INSERT.replace('?, ?', `0, '${adopt.replaceAll("'", "''")}'`), SETTLE_ALL]
}

/** Gives number 0 a name, unless it has one. That name then owns all rows from before namespaces. */
export function adoptNamespace(turn: Turn, name: string): void {
  const known = turn.all(LIST)
  if (known.length === 0) turn.run(INSERT, [0, name])
  else if (known[0]?.['name'] !== name) throw adoptedElsewhere(name, known[0]?.['name'])
  turn.run(SETTLE_ALL)
}
