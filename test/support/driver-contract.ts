import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { CommitLost } from '../../src/store/postgres/driver/driver.ts'
import type { PgDriver, PgStatement } from '../../src/store/postgres/driver/driver.ts'
import { effectivelyOnce, event, type Once } from '../../src/index.ts'
import { isConnectionLost, sqlStateOf } from '../../src/store/postgres/driver/sqlstate.ts'
import { postgresStore } from '../../src/store/postgres/store.ts'
import { inboxWorks } from './inbox-works.ts'

/** A client under test, and its own ways to do what users do. The table is `effect (id int primary key, note text)`. */
export interface Bench<Tx> {
  readonly driver: PgDriver<Tx>
  /** Written by the client's own means. */
  insert(tx: Tx, id: number): Promise<unknown>
  /** Built now, sent when called: lazy builders. */
  later(tx: Tx, id: number): () => Promise<unknown>
  /** The client's own nested transaction. */
  nested(tx: Tx, work: (inner: Tx) => Promise<unknown>): Promise<unknown>
  /** Raw SQL by the client's own means. */
  raw(tx: Tx, text: string): Promise<unknown>
  /** The user's own transaction, begun by the client's own means. */
  own(work: (tx: Tx) => Promise<unknown>): Promise<unknown>
  /** The root handle, where a transaction is wanted. */
  readonly root: Tx
  /** Beside the client: another connection, or for PGlite the database itself between transactions. */
  admin(text: string): Promise<readonly Record<string, unknown>[]>
  close(): Promise<void>
}

export interface ContractOptions {
  /** False where there is no backend to kill. */
  readonly server: boolean
  /** False where the client itself gives a joined transaction up after any failed statement. */
  readonly joinHeals?: boolean
  /** So many begins may still meet the broken connection: the client gave it back to its pool. */
  readonly echoes?: number
}

const TABLES = [
  'drop table if exists effect',
  'create table effect (id int primary key, note text)',
  'drop table if exists late',
  'create table late (id int, unique (id) deferrable initially deferred)',
  'drop table if exists deadly',
  'create table deadly (id int)',
  `create or replace function die() returns trigger language plpgsql as $$
begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(0.2); return null; end $$`,
  'create constraint trigger dies after insert on deadly deferrable initially deferred for each row execute function die()',
]

/** What every driver must do, whichever client it is made of. */
export function driverContract<Tx>(make: () => Promise<Bench<Tx>>, options: ContractOptions): void {
  describe('driver contract', () => {
    let bench: Bench<Tx>
    const ids = async (): Promise<unknown[]> =>
      (await bench.admin('select id from effect order by id')).map((row) => row['id'])

    beforeAll(async () => {
      bench = await make()
      for (const statement of TABLES) await bench.admin(statement)
    })
    afterAll(() => bench.close())
    beforeEach(() => bench.admin('delete from effect'))

    it('gives values and rows as they are', async () => {
      const statement = named(
        `select $1::text as text_value, $2::int4 as int_value, $3::float8 as float_value, $4::bool as bool_value,
                $5::text as null_value, $6::text::bigint::text as big_value, $7::text::uuid[]::text as array_value`,
        ['käse', 7, 1.5, true, null, '9007199254740993', '{}'],
      )
      const row = {
        text_value: 'käse',
        int_value: 7,
        float_value: 1.5,
        bool_value: true,
        null_value: null,
        big_value: '9007199254740993',
        array_value: '{}',
      }
      expect(plain(await bench.driver.query(statement))).toEqual([row])
      expect(plain(await bench.driver.aside(statement))).toEqual([row])
      const { connection, rows } = await bench.driver.begin(statement)
      expect(plain(rows)).toEqual([row])
      expect(plain(await connection.query({ ...statement, name: '' }))).toEqual([row])
      await connection.rollback()
    })

    it('commits what the handle wrote together with the last statement', async () => {
      const { connection, rows } = await bench.driver.begin(named('select 1 as one', []))
      expect(plain(rows)).toEqual([{ one: 1 }])
      const { tx } = connection.revocable()
      await bench.insert(tx, 1)
      if (options.server) expect(await ids()).toEqual([])
      expect(await connection.commit(insertion(2))).toBe('committed')
      expect(await ids()).toEqual([1, 2])
    })

    it('commits without a last statement', async () => {
      const { connection } = await begin()
      await bench.insert(connection.revocable().tx, 1)
      expect(await connection.commit()).toBe('committed')
      expect(await ids()).toEqual([1])
    })

    it.each(['with', 'without'])(
      'tells an aborted transaction from a committed one, %s a last statement',
      async (how) => {
        const { connection } = await begin()
        const { tx } = connection.revocable()
        await bench.insert(tx, 1)
        await expect(bench.insert(tx, 1)).rejects.toSatisfy((error) => sqlStateOf(error) === '23505')
        expect(await connection.commit(how === 'with' ? insertion(2) : undefined)).toBe('rolledBack')
        expect(await ids()).toEqual([])
      },
    )

    it('commits nothing when the last statement raises', async () => {
      const { connection } = await begin()
      await bench.insert(connection.revocable().tx, 1)
      const raise = named('select 1 / $1::int4 as never', [0])
      await expect(connection.commit(raise)).rejects.toSatisfy((error) => sqlStateOf(error) === '22012')
      await connection.rollback()
      expect(await ids()).toEqual([])
    })

    it('throws the error of COMMIT itself', async () => {
      const { connection } = await begin()
      await bench.insert(connection.revocable().tx, 1)
      await connection.query(unnamed('insert into late values (1), (1)'))
      await expect(connection.commit(insertion(2))).rejects.toSatisfy((error) => sqlStateOf(error) === '23505')
      await connection.rollback()
      expect(await ids()).toEqual([])
    })

    it('rolls back, more than once, and after a commit not at all', async () => {
      const first = await begin()
      await bench.insert(first.connection.revocable().tx, 1)
      await first.connection.rollback()
      await first.connection.rollback()
      expect(await ids()).toEqual([])
      const second = await begin()
      expect(await second.connection.commit(insertion(2))).toBe('committed')
      await second.connection.rollback()
      expect(await ids()).toEqual([2])
    })

    it('leaves no connection behind, however it ends', async () => {
      for (let round = 0; round < 12; round++) {
        await expect(bench.driver.begin(unnamed('select nothing'))).rejects.toSatisfy(
          (error) => sqlStateOf(error) === '42703',
        )
        await (await begin()).connection.rollback()
        await (await begin()).connection.commit()
        await expect((await begin()).connection.commit(unnamed('select nothing'))).rejects.toThrow()
      }
      expect(plain(await bench.driver.query(unnamed('select 1 as one')))).toEqual([{ one: 1 }])
    })

    it('runs many statements, and stops at the first that fails', async () => {
      const { connection } = await begin()
      const done = await connection.pipeline([insertion(1), insertion(2), named('select 3 as three', [])])
      expect(done.kind === 'done' && done.rows.map(plain)).toEqual([[], [], [{ three: 3 }]])
      const failed = await connection.pipeline([insertion(3), insertion(3), insertion(4)])
      expect(failed).toMatchObject({ kind: 'failed', index: 1 })
      expect(failed.kind === 'failed' && sqlStateOf(failed.error)).toBe('23505')
      await connection.rollback()
      expect(await ids()).toEqual([])
    })

    it('reads committed, whatever the default is', async () => {
      const database = String((await bench.admin('select current_database() as name'))[0]?.['name'])
      await bench.admin(`alter database "${database}" set default_transaction_isolation = 'repeatable read'`)
      await bench.admin(`set default_transaction_isolation = 'repeatable read'`)
      const fresh = await make()
      try {
        const { connection, rows } = await fresh.driver.begin(
          unnamed(`select current_setting('transaction_isolation') as level,
                          current_setting('default_transaction_isolation') as fallback`),
        )
        await connection.rollback()
        expect(plain(rows)).toEqual([{ level: 'read committed', fallback: 'repeatable read' }])
      } finally {
        await fresh.close()
        await bench.admin(`alter database "${database}" reset default_transaction_isolation`)
        await bench.admin(`reset default_transaction_isolation`)
      }
    })

    it('takes the handle back before the commit, and what was built with it', async () => {
      const { connection } = await begin()
      const { tx, revoke } = connection.revocable()
      await bench.insert(tx, 1)
      const built = bench.later(tx, 2)
      const again = bench.later(tx, 3)
      revoke()
      await closed(bench.insert(tx, 4))
      await closed(built())
      await closed(bench.nested(tx, async (inner) => bench.insert(inner, 5)))
      await closed(bench.raw(tx, 'insert into effect values (6)'))
      expect(await connection.commit(insertion(7))).toBe('committed')
      await closed(bench.insert(tx, 8))
      await closed(again())
      expect(await ids()).toEqual([1, 7])
    })

    it('takes the handle of a nested transaction back as well', async () => {
      const { connection } = await begin()
      const { tx, revoke } = connection.revocable()
      let stray: Promise<unknown> | undefined
      await bench.nested(tx, async (inner) => {
        await bench.insert(inner, 1)
        const built = bench.later(inner, 2)
        stray = (async () => {
          await new Promise((resolve) => setTimeout(resolve, 50))
          await built()
        })()
        stray.catch(() => {})
      })
      revoke()
      expect(await connection.commit(insertion(3))).toBe('committed')
      await closed(stray as Promise<unknown>)
      expect(await ids()).toEqual([1, 3])
    })

    it('lets the user nest transactions', async () => {
      const { connection } = await begin()
      const { tx } = connection.revocable()
      await bench.insert(tx, 1)
      await expect(
        bench.nested(tx, async (inner) => {
          await bench.insert(inner, 2)
          await bench.insert(inner, 1)
        }),
      ).rejects.toSatisfy((error) => sqlStateOf(error) === '23505')
      await bench.nested(tx, async (inner) => {
        await bench.insert(inner, 3)
        await expect(
          bench.nested(inner, async (innermost) => {
            await bench.insert(innermost, 4)
            throw new Error('changed my mind')
          }),
        ).rejects.toThrow('changed my mind')
      })
      expect(await connection.commit(insertion(5))).toBe('committed')
      expect(await ids()).toEqual([1, 3, 5])
    })

    it('forgets a failed statement that a savepoint of ours undid', async () => {
      const { connection } = await begin()
      const { tx } = connection.revocable()
      await bench.insert(tx, 1)
      await connection.query(unnamed('savepoint ours'))
      await expect(bench.insert(tx, 1)).rejects.toThrow()
      await connection.query(unnamed('rollback to savepoint ours'))
      await expect(connection.query(insertion(1))).rejects.toThrow()
      await connection.query(unnamed('rollback to savepoint ours'))
      expect(await connection.commit(insertion(2))).toBe('committed')
      expect(await ids()).toEqual([1, 2])
    })

    it.each(['commit', ' ROLLBACK;', 'begin', '/* so */ end', '-- so\nabort', "prepare transaction 'x'"])(
      'refuses %j through the handle',
      async (text) => {
        const { connection } = await begin()
        const { tx } = connection.revocable()
        await bench.insert(tx, 1)
        await expect(bench.raw(tx, text)).rejects.toMatchObject({ code: 'ONCE_TX_TAKEN' })
        await bench.raw(tx, 'savepoint mine')
        await bench.raw(tx, 'rollback to savepoint mine')
        expect(await connection.commit(insertion(2))).toBe('committed')
        expect(await ids()).toEqual([1, 2])
      },
    )

    it("works inside the user's own transaction, and leaves its end to the user", async () => {
      await bench.own(async (tx) => {
        const connection = bench.driver.join(tx)
        const handle = connection.revocable()
        await bench.insert(handle.tx, 1)
        await bench.nested(handle.tx, (inner) => bench.insert(inner, 2))
        await connection.query(insertion(3))
        handle.revoke()
        await closed(bench.insert(handle.tx, 4))
        await bench.insert(tx, 5)
      })
      expect(await ids()).toEqual([1, 2, 3, 5])
      const own = bench.own(async (tx) => {
        await bench.driver.join(tx).query(insertion(6))
        throw new Error('no')
      })
      await expect(own).rejects.toThrow('no')
      expect(await ids()).toEqual([1, 2, 3, 5])
    })

    it("keeps the user's own transaction when a savepoint undid a failure in it", async () => {
      const own = bench.own(async (tx) => {
        const connection = bench.driver.join(tx)
        const handle = connection.revocable()
        await bench.insert(tx, 1)
        await connection.query(unnamed('savepoint ours'))
        await expect(bench.insert(handle.tx, 1)).rejects.toThrow()
        await connection.query(unnamed('rollback to savepoint ours'))
        await bench.insert(tx, 2)
      })
      if (options.joinHeals === false) await expect(own).rejects.toThrow()
      else await own
      expect(await ids()).toEqual(options.joinHeals === false ? [] : [1, 2])
    })

    it('refuses to join what is no transaction', () => {
      for (const wrong of [bench.root, undefined, null, {}, 'tx']) {
        expect(() => bench.driver.join(wrong as Tx)).toThrow(expect.objectContaining({ code: 'ONCE_TX_REQUIRED' }))
      }
    })

    if (options.server) {
      it('runs transactions beside each other', async () => {
        const open = await Promise.all([1, 2, 3].map((id) => bench.driver.begin(insertion(id))))
        const [first, second, third] = open.map(({ connection }) => connection)
        await second?.rollback()
        expect(await Promise.all([first?.commit(), third?.commit()])).toEqual(['committed', 'committed'])
        expect(await ids()).toEqual([1, 3])
      })

      it('does not know the outcome when the reply to COMMIT is lost', async () => {
        const { connection } = await begin()
        await bench.insert(connection.revocable().tx, 1)
        await connection.query(unnamed('insert into deadly values (1)'))
        await expect(connection.commit(insertion(2))).rejects.toBeInstanceOf(CommitLost)
        await connection.rollback()
        expect(await ids()).toEqual([])
        await (await revived()).connection.commit(insertion(3))
        expect(await ids()).toEqual([3])
      })

      it.each(['at once', 'a while later'])('survives a backend killed between statements, used %s', async (when) => {
        const { connection, rows } = await bench.driver.begin(unnamed('select pg_backend_pid() as pid'))
        const { tx } = connection.revocable()
        await bench.insert(tx, 1)
        await bench.admin(`select pg_terminate_backend(${Number(rows[0]?.['pid'])})`)
        if (when !== 'at once') await new Promise((resolve) => setTimeout(resolve, 100))
        await expect(bench.insert(tx, 2)).rejects.toThrow()
        await expect(bench.later(tx, 3)()).rejects.toThrow()
        await expect(connection.commit(insertion(4))).rejects.toThrow()
        await connection.rollback()
        expect(await ids()).toEqual([])
        await (await revived()).connection.commit(insertion(5))
        expect(await ids()).toEqual([5])
      })

      it('survives a backend killed during a statement', async () => {
        const { connection, rows } = await bench.driver.begin(unnamed('select pg_backend_pid() as pid'))
        const { tx } = connection.revocable()
        const sleeping = bench.raw(tx, 'select 1 as one from pg_sleep(10)').then(
          () => 'slept',
          () => 'killed',
        )
        await new Promise((resolve) => setTimeout(resolve, 100))
        await bench.admin(`select pg_terminate_backend(${Number(rows[0]?.['pid'])})`)
        expect(await sleeping).toBe('killed')
        await expect(bench.insert(tx, 2)).rejects.toThrow()
        await connection.rollback()
        await (await revived()).connection.commit(insertion(5))
        expect(await ids()).toEqual([5])
      })
    }

    function begin(): ReturnType<PgDriver<Tx>['begin']> {
      return bench.driver.begin(unnamed('select 1 as one'))
    }

    async function revived(): ReturnType<PgDriver<Tx>['begin']> {
      for (let echo = 0; echo < (options.echoes ?? 0); echo++) {
        try {
          return await begin()
        } catch (error) {
          expect(isConnectionLost(error)).toBe(true)
        }
      }
      return begin()
    }
  })
}

/** Handles of the wrong kind, for the sentence that refuses them. */
export const WRONG_HANDLES: readonly unknown[] = [undefined, null, 'postgres://', {}, () => {}, new Map()]

export function refusesWrongHandles(make: (handle: never) => unknown, sentence: string): void {
  it('says in one sentence which handle it needs', () => {
    for (const handle of WRONG_HANDLES) {
      expect(() => make(handle as never)).toThrow(
        expect.objectContaining({ code: 'ONCE_OPTION_INVALID', message: expect.stringContaining(sentence) as string }),
      )
    }
  })
}

async function closed(promise: Promise<unknown>): Promise<void> {
  await expect(promise).rejects.toMatchObject({ name: 'OnceError', code: 'ONCE_TX_CLOSED' })
}

function insertion(id: number): PgStatement {
  return named('insert into effect (id, note) values ($1::int4, $2::text)', [id, 'last'])
}

function named(text: string, values: readonly unknown[]): PgStatement {
  return { name: `contract.${text.length}`, text, values }
}

function unnamed(text: string): PgStatement {
  return { name: '', text, values: [] }
}

function plain(rows: readonly Record<string, unknown>[]): Record<string, unknown>[] {
  return rows.map((row) => ({ ...row }))
}

/** The whole of it, once, on the client: what the statements return must be read alike everywhere. */
export function storeWorks<Tx>(make: () => Promise<Bench<Tx>>): void {
  describe('a store on it', () => {
    let bench: Bench<Tx>
    let once: Once<Tx, typeof EVENTS>
    beforeAll(async () => {
      bench = await make()
      for (const statement of TABLES.slice(0, 2)) await bench.admin(statement)
      once = effectivelyOnce({
        namespace: 'test',
        store: postgresStore(bench.driver),
        events: EVENTS,
        sweep: false,
        guard: 'off',
      })
      expect((await once.migrate()).from).toBe(0)
    })
    afterAll(async () => {
      await bench.close()
    })
    inboxWorks(() => bench)

    it('runs once, replays, and refuses another input', async () => {
      const run = (input: unknown): Promise<unknown> =>
        once.run({ scope: 's', key: 'atomic', input }, async ({ tx, publish }) => {
          await bench.insert(tx, 1)
          await publish('made', { id: 1 })
          return { made: 1 }
        })
      expect(await run(1)).toEqual({ made: 1 })
      expect(await run(1)).toEqual({ made: 1 })
      await expect(run(2)).rejects.toMatchObject({ code: 'ONCE_MISMATCH' })
      expect(await bench.admin('select count(*)::int4 as n from effectively_once.event')).toEqual([{ n: 1 }])
    })

    it('survives a nested operation that fails', async () => {
      const result = await once.run({ scope: 's', key: 'outer', input: 1 }, async ({ tx }) => {
        await bench.insert(tx, 10)
        const inner = once.run({ scope: 's', key: 'inner', input: 1 }, (op) => bench.insert(op.tx, 10))
        await expect(inner).rejects.toSatisfy((error) => sqlStateOf(error) === '23505')
        await bench.insert(tx, 11)
        return 'survived'
      })
      expect(result).toBe('survived')
    })

    it('rolls back what a handler hid', async () => {
      const hidden = once.run({ scope: 's', key: 'hidden', input: 1 }, async ({ tx }) => {
        await bench.insert(tx, 20)
        await bench.insert(tx, 20).catch(() => {})
      })
      await expect(hidden).rejects.toMatchObject({ code: 'ONCE_ROLLED_BACK' })
    })

    it('steps, and commits with a fence', async () => {
      const run = (): Promise<unknown> =>
        once.run({ scope: 's', key: 'leased', input: 1, lease: '10s' }, async ({ step, commit }) => {
          const paid = await step('pay', async ({ key }) => key.length)
          await step.tx('note', ({ tx }) => bench.insert(tx, 30).then(() => 'noted'))
          return commit(async ({ tx }) => {
            await bench.insert(tx, 31)
            return { paid }
          })
        })
      const first = await run()
      expect(await run()).toEqual(first)
    })

    it('batches', async () => {
      const add = once.batched({
        statement: (id: number) => ({ sql: 'insert into effect (id) values ($1::int4) returning id', values: [id] }),
        respond: (rows) => rows[0]?.['id'],
      })
      const ids = [40, 41, 42, 1, 43]
      const outcomes = await Promise.allSettled(ids.map((id) => add({ scope: 's', key: `batch ${id}`, input: id })))
      expect(outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 'refused'))).toEqual([
        40,
        41,
        42,
        'refused',
        43,
      ])
    })

    it("joins the user's own transaction", async () => {
      await bench.own(async (tx) => {
        await once.join(tx).publish('made', { id: 50 })
        await once
          .join(tx)
          .run({ scope: 's', key: 'joined', input: 1 }, (op) => bench.insert(op.tx, 50).then(() => 'joined'))
      })
      await expect(once.join(bench.root).publish('made', { id: 51 })).rejects.toMatchObject({
        code: 'ONCE_TX_REQUIRED',
      })
      const ids = (await bench.admin('select id from effect order by id')).map((row) => row['id'])
      expect(ids).toEqual([1, 10, 11, 30, 31, 40, 41, 42, 43, 50])
      expect(await once.sweep()).toMatchObject({ finished: true })
      await once.close()
    })
  })
}

const EVENTS = { made: event<{ id: number }>(({ id }) => String(id)) }
