import { onceError } from '../../errors.ts'
import type { Row, TakeTurn } from '../store.ts'
import type { Client } from './client.ts'
import { countsChanges, endsTransaction, readText, type SqlText } from './text.ts'
import { Prepared } from './prepared.ts'
import type { Turn } from './turn.ts'
import { bindable } from './value.ts'

/** The transaction of an operation. `query` has the same form as in `pg`. */
export interface SqlTx {
  /** Parameters are `$1` or `?`. One statement per call. Only the operation itself may begin, commit or roll back. */
  query<R extends object = Row>(sql: string, values?: readonly unknown[]): Promise<SqlResult<R>>
}

export interface SqlResult<R> {
  readonly rows: R[]
  /** The number of rows returned, or the number of rows changed if the statement returns none. */
  readonly rowCount: number
}

/** Hands out revocable transaction handles, and recognizes its own. */
export class Handles {
  readonly #texts = new Prepared(readText)

  open(turn: Turn, takeTurn?: TakeTurn): { tx: SqlTx; revoke: () => void } {
    let revoked = false
    const open = (): Turn => {
      if (revoked) throw onceError('ONCE_TX_CLOSED')
      turn.check()
      return turn
    }
    const query: SqlTx['query'] = <R extends object>(sql: string, values: readonly unknown[] = []) => {
      const send = async (): Promise<SqlResult<R>> => this.query(open(), sql, values) as SqlResult<R>
      return takeTurn?.(send) ?? send()
    }
    return {
      tx: new Handle(query, this, open),
      revoke: () => {
        revoked = true
      },
    }
  }

  /** The open transaction behind one of our handles. */
  turnOf(tx: SqlTx): Turn {
    const open = Handle.behind(tx, this)
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
      throw new RangeError(`the query has ${text.wanted} parameters, but got ${values.length} values`)
    const bound = text.order.map((index) => bindable(values[index]))
    return turn.user((client) => execute(client, text, bound))
  }
}

class Handle implements SqlTx {
  /** Helpers that write SQL tell this `tx` from a client of PostgreSQL, which has `query`, too. */
  readonly dialect = 'sqlite'
  readonly query: SqlTx['query']
  readonly #from: Handles
  readonly #open: () => Turn

  constructor(query: SqlTx['query'], from: Handles, open: () => Turn) {
    this.query = query
    this.#from = from
    this.#open = open
  }

  static behind(tx: SqlTx, from: Handles): (() => Turn) | undefined {
    const ours = typeof tx === 'object' && tx !== null && #open in tx && tx.#from === from
    return ours ? tx.#open : undefined
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
