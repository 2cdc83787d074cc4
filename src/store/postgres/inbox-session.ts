import type { CompleteInboxParams, InboxSession } from '../inbox.ts'
import type { SqlSession } from '../store.ts'
import { arrayLiteral } from './array-literal.ts'
import { explained } from './commit.ts'
import type { PgConnection } from './driver/driver.ts'
import { positionArrays } from './inbox-rows.ts'
import type { InboxBind } from './inbox-statements.ts'

/** One open transaction that began with its inbox rows. */
export class PostgresInboxSession<Tx> implements InboxSession<Tx> {
  readonly session: SqlSession<Tx>
  readonly #connection: PgConnection<Tx>
  readonly #bind: InboxBind
  readonly #xid: string
  readonly #taken: string
  readonly #schema: string

  constructor(
    connection: PgConnection<Tx>,
    session: SqlSession<Tx>,
    bind: InboxBind,
    of: { readonly xid: string; readonly schema: string; readonly taken: readonly string[] },
  ) {
    this.session = session
    this.#connection = connection
    this.#bind = bind
    this.#xid = of.xid
    this.#taken = arrayLiteral(of.taken)
    this.#schema = of.schema
  }

  async complete({ consumer, events, tried, positions }: CompleteInboxParams): Promise<'committed' | 'rolledBack'> {
    // Append events last, because the shards' locks are held until the commit. In an aborted transaction this fails,
    // and the error counts as a rollback.
    if (events.length > 0) await this.session.append(events)
    const beside = tried.length > 0 || positions !== null
    const last = beside
      ? this.#bind('inboxDoneBeside', [
          this.#xid,
          this.#taken,
          arrayLiteral(tried),
          ...positionArrays(consumer, positions),
        ])
      : this.#bind('inboxDone', [this.#xid, this.#taken])
    return explained(this.#connection.commit(last), this.#schema)
  }

  rollback(): Promise<void> {
    return this.#connection.rollback()
  }
}
