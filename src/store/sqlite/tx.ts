import { onceError } from '../../errors.ts'
import type { Row } from '../store.ts'
import type { Client } from './client.ts'
import { countsChanges, endsTransaction, readText, type SqlText } from './text.ts'
import { Prepared } from './prepared.ts'
import type { Turn } from './turn.ts'
import { bindable } from './value.ts'

/** The transaction of an operation, with pg's shape. */
export interface SqlTx {
  /** Parameters are `$1` or `?`. One statement per call; begin, commit and rollback are the operation's own. */
  query<R extends object = Row>(sql: string, values?: readonly unknown[]): Promise<SqlResult<R>>
}

export interface SqlResult<R> {
  readonly rows: R[]
  /** Rows returned, or rows changed where none are returned. */
  readonly rowCount: number
}

/** Hands out transactions that can be taken back, and knows its own again. */
export class Handles {
  readonly #turns = new WeakMap<SqlTx, () => Turn>()
  readonly #texts = new Prepared(readText)

  open(turn: Turn): { tx: SqlTx; revoke: () => void } {
    let revoked = false
    const open = (): Turn => {
      if (revoked) throw onceError('ONCE_TX_CLOSED')
      turn.check()
      return turn
    }
    const tx: SqlTx = {
      query: async <R extends object>(sql: string, values: readonly unknown[] = []) =>
        this.query(open(), sql, values) as SqlResult<R>,
    }
    this.#turns.set(tx, open)
    return {
      tx,
      revoke: () => {
        revoked = true
      },
    }
  }

  /** The open transaction behind a handle that we handed out. */
  turnOf(tx: SqlTx): Turn {
    const open = this.#turns.get(tx)
    if (!open) throw onceError('ONCE_TX_REQUIRED', { detail: 'join() needs the tx that this store handed out' })
    return open()
  }

  query(
    turn: Turn,
    sql: string,
    values: readonly unknown[],
    refused: (text: SqlText) => boolean = endsTransaction,
  ): SqlResult<Row> {
    const text = this.#texts.get(sql)
    if (refused(text)) throw onceError('ONCE_TX_TAKEN')
    if (values.length !== text.wanted)
      throw new RangeError(`the query wants ${text.wanted} values, ${values.length} were given`)
    const bound = text.order.map((index) => bindable(values[index]))
    return turn.user((client) => execute(client, text, bound))
  }
}

function execute(client: Client, text: SqlText, values: Parameters<Client['all']>[1]): SqlResult<Row> {
  if (client.returnsRows(text.sql)) {
    const rows = client.all(text.sql, values)
    return { rows, rowCount: rows.length }
  }
  const changes = client.run(text.sql, values)
  return { rows: [], rowCount: countsChanges(text) ? changes : 0 }
}
