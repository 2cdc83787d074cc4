import type pg from 'pg'
import type { PgConnection, PgDriver, PgStatement } from '../../src/store/postgres/driver.ts'
import { pgDriver, type PgTx } from '../../src/store/postgres/pg.ts'
import { postgresStore } from '../../src/store/postgres/store.ts'
import type { Store } from '../../src/store/store.ts'

type Tx = PgTx<pg.PoolClient>

/** How producers number their events. 'locked' is ours; the others lose events behind a cursor. */
export type Numbering = 'locked' | 'plainCursor' | 'lateLock'

const LOCK = 'select pg_advisory_xact_lock(3598, $9::int4)'
const NEXT = `nextval('"effectively_once".event_seq')`
/** A slow server, at the same place in all of them: between the number and whatever comes after it. */
const PAUSE = 'pg_sleep(random() * 0.03)'

const REWRITTEN: Record<Numbering, (text: string) => string> = {
  locked: (text) => text.replace(LOCK, `${LOCK}, ${PAUSE}`),
  plainCursor: (text) => text.replace(LOCK, `select n.seq, ${PAUSE} from (select ${NEXT} as seq offset 0) n`),
  lateLock: (text) =>
    text.replace(
      LOCK,
      `select n.seq, pg_advisory_xact_lock(3598, $9::int4) from (select m.seq, ${PAUSE} from (select ${NEXT} as seq offset 0) m offset 0) n`,
    ),
}

/** A store whose completing statement numbers its event in another way. */
export function numberingStore(pool: pg.Pool, numbering: Numbering): Store<Tx> {
  const driver = pgDriver(pool)
  const changed = (statement: PgStatement): PgStatement => {
    if (!statement.text.includes(LOCK)) return statement
    const [before, after] = REWRITTEN[numbering](statement.text).split('), a as (') as [string, string]
    const text = `${before}), a as (${numbering === 'locked' ? after : after.replace(NEXT, 'k.seq')}`
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
    rollback: () => connection.rollback(),
  }
}
