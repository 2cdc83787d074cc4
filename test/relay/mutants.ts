import type pg from 'pg'
import type { PgConnection, PgDriver, PgStatement } from '../../src/store/postgres/driver/driver.ts'
import { pgDriver, type PgTx } from '../../src/store/postgres/pg.ts'
import { postgresStore } from '../../src/store/postgres/store.ts'
import type { SqlStore } from '../../src/store/store.ts'

type Tx = PgTx<pg.PoolClient>

/** How producers number their events. 'locked' is ours; the others lose events behind a cursor. */
export type Numbering = 'locked' | 'plainCursor' | 'lateLock'

const LOCK = 'pg_advisory_xact_lock(3598, $9::int4) is not null'
const NEXT = `nextval('"effectively_once".event_seq')`
/** The end of the expression that numbers an event. */
const NUMBER = ` and ${LOCK}\n  then ${NEXT} end`
/** A slow server, at the same place in all of them: beside the number, before whatever comes after it. */
const PAUSE = 'pg_sleep(random() * 0.03) is not null'

const REWRITTEN: Record<Numbering, string> = {
  locked: ` and ${LOCK} and ${PAUSE} then ${NEXT} end`,
  plainCursor: ` then (select n.seq from (select ${NEXT} as seq offset 0) n where ${PAUSE}) end`,
  lateLock: ` then (select m.seq from (select n.seq from (select ${NEXT} as seq offset 0) n where ${PAUSE} offset 0) m where ${LOCK}) end`,
}

/** A store whose completing statement numbers its event in another way. */
export function numberingStore(pool: pg.Pool, numbering: Numbering): SqlStore<Tx> {
  const driver = pgDriver(pool)
  const changed = (statement: PgStatement): PgStatement => {
    if (!statement.name.includes('.completeEvent.')) return statement
    if (!statement.text.includes(NUMBER)) throw new Error('the statement to plant this mistake in has changed')
    const text = statement.text.replace(NUMBER, REWRITTEN[numbering])
    return { ...statement, name: `${numbering} ${statement.name}`, text }
  }
  const wrapped: PgDriver<Tx> = {
    ...driver,
    async begin(first) {
      const { connection, rows } = await driver.begin(first)
      return { connection: changing(connection, changed), rows }
    },
  }
  return postgresStore(wrapped)
}

function changing(connection: PgConnection<Tx>, changed: (statement: PgStatement) => PgStatement): PgConnection<Tx> {
  return {
    tx: connection.tx,
    revocable: () => connection.revocable(),
    query: (statement) => connection.query(statement),
    pipeline: (statements) => connection.pipeline(statements),
    commit: (last) => connection.commit(last && changed(last)),
    endedBy: (error) => connection.endedBy(error),
    rollback: () => connection.rollback(),
  }
}
