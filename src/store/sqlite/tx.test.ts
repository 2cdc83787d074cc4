import { expect, expectTypeOf, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { begin, count, makeAnswer, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import { effectivelyOnce } from '../../index.ts'
import { instanceOf } from '../../once/instance.ts'
import type { SqlResult, SqlTx } from './tx.ts'

it('tx has the shape of pg', () => {
  expectTypeOf<SqlTx['query']>().toBeCallableWith('select 1')
  expectTypeOf<SqlTx['query']>().toBeCallableWith('select $1', ['a', 5, true, null])
  interface Charge {
    id: number
  }
  const typed = (tx: SqlTx) => tx.query<Charge>('select id from charge')
  expectTypeOf(typed).returns.resolves.toEqualTypeOf<SqlResult<Charge>>()
  const untyped = (tx: SqlTx) => tx.query('select 1')
  expectTypeOf(untyped).returns.resolves.toEqualTypeOf<SqlResult<Record<string, unknown>>>()
})

describeSqlite('tx', (lab) => {
  it('takes $1 in any order and more than once, and ?', async () => {
    const store = await lab.store()
    expect(await query(store, 'select $2 as b, $1 as a, $2 as c', ['a', 'b'])).toEqual([{ a: 'a', b: 'b', c: 'b' }])
    expect(await query(store, 'select ? as a, ? as b', ['a', 'b'])).toEqual([{ a: 'a', b: 'b' }])
  })

  it('keeps what a value is', async () => {
    const store = await lab.store()
    const day = new Date('2026-01-02T03:04:05.678Z')
    const values = [5, 5.5, 2n ** 62n, true, false, null, undefined, 'text', new Uint8Array([1, 2]), day, { a: [1] }]
    const types = values.map((_, index) => `typeof($${index + 1}) as t${index}`).join(', ')
    const [row = {}] = await query(store, `select ${types}`, values)
    expect(Object.values(row)).toEqual([
      'integer',
      'real',
      'integer',
      'integer',
      'integer',
      'null',
      'null',
      'text',
      'blob',
      'text',
      'text',
    ])
    await query(store, 'create table kept (t text, n integer, b blob)')
    await query(store, 'insert into kept values ($1, $2, $3)', [
      5,
      2n ** 62n,
      new Uint8Array([0, 1, 2, 3]).subarray(1, 3),
    ])
    expect(await query(store, 'select * from kept')).toEqual([{ t: '5', n: 2n ** 62n, b: new Uint8Array([1, 2]) }])
    expect(await query(store, 'select $1 as day, $2 as json', [day, { a: [1] }])).toEqual([
      { day: '2026-01-02T03:04:05.678Z', json: '{"a":[1]}' },
    ])
    await expect(query(store, 'select $1', [Symbol('no')])).rejects.toThrow(TypeError)
    await expect(query(store, 'select $1', [2n ** 63n])).rejects.toThrow(RangeError)
  })

  it('wants exactly its values: a missing one would be a silent null', async () => {
    const store = await lab.store()
    await expect(query(store, 'select $1, $2', [1])).rejects.toThrow(/has 2 parameters, but got 1/)
    await expect(query(store, 'select $1', [1, 2])).rejects.toThrow(/has 1 parameters, but got 2/)
  })

  it('counts rows as pg does', async () => {
    const store = await lab.store()
    const counts = await store.transaction(async (tx) => {
      const results = []
      for (const sql of [
        `insert into charge (key) values ('a'), ('b')`,
        `insert into charge (key) values ('c') returning id`,
        'create table other (x)',
        'update charge set amount = 1',
        'update charge set amount = 1 where 0',
        'select * from charge',
        'with old as (select 1) delete from charge',
      ]) {
        results.push((await tx.query(sql)).rowCount)
      }
      return results
    })
    expect(counts).toEqual([2, 1, 0, 3, 0, 3, 3])
  })

  it.each(['this process', 'another one'])('select * knows the columns that %s added', async (who) => {
    const file = lab.file()
    const store = await lab.store({ file })
    const other = who === 'another one' ? lab.bare({ file }) : store
    await query(store, `insert into charge (key) values ('a')`)
    const read = () => query(store, 'select * from charge')
    expect(await read()).toEqual([{ id: 1, key: 'a', amount: null }])
    await query(other, `alter table charge add column currency default 'EUR'`)
    expect(await read()).toEqual([{ id: 1, key: 'a', amount: null, currency: 'EUR' }])
    await query(other, 'alter table charge drop column amount')
    expect(await read()).toEqual([{ id: 1, key: 'a', currency: 'EUR' }])
  })

  it('throws the errors of SQLite as they come, and the transaction goes on', async () => {
    const store = await lab.store()
    await store.transaction(async (tx) => {
      await tx.query('insert into charge (id, key) values (1, $1)', ['a'])
      await expect(tx.query('insert into charge (id, key) values (1, $1)', ['b'])).rejects.toThrow(
        'UNIQUE constraint failed: charge.id',
      )
      await expect(tx.query('select * from nowhere')).rejects.toThrow('no such table: nowhere')
      await tx.query('insert into charge (id, key) values (2, $1)', ['c'])
    })
    expect(await count(store, 'charge')).toBe(2)
  })

  it.each(['commit', '/* x */ COMMIT', 'rollback', 'begin', 'end', 'select 1; commit'])('refuses %s', async (text) => {
    const store = await lab.store()
    await store.transaction(async (tx) => {
      await tx.query('insert into charge (key) values ($1)', ['a'])
      await expect(tx.query(text)).rejects.toThrow(/ONCE_TX_TAKEN|ONCE_UNSUPPORTED/)
    })
    expect(await count(store, 'charge')).toBe(1)
  })

  it('leaves savepoints to the user', async () => {
    const store = await lab.store()
    await store.transaction(async (tx) => {
      await tx.query('savepoint a')
      await tx.query('insert into charge (key) values ($1)', ['a'])
      await tx.query('rollback to a')
      await tx.query('release a')
      await tx.query('insert into charge (key) values ($1)', ['b'])
    })
    expect(await query(store, 'select key from charge')).toEqual([{ key: 'b' }])
  })

  it('leaves our savepoints alone: the claim lies behind one of them', async () => {
    const store = await lab.store()
    const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
    const undone = () =>
      once.run({ scope: 'a', key: 'one', input: 1 }, async ({ tx }) => {
        await tx.query('ROLLBACK TO "effectively_once_turn"').catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'ONCE_TX_TAKEN' })
        })
        await tx.query('insert into charge (key) values ($1)', ['one'])
      })
    await undone()
    instanceOf(once).core.cache.clear()
    await undone()
    expect(await count(store, 'charge')).toBe(1)
  })

  it.each(['query_only = on', 'main.locking_mode = exclusive', 'busy_timeout(3000)'])(
    'refuses pragma %s, which would outlive the operation',
    async (setting) => {
      const store = await lab.store()
      const failing = store.transaction((tx) => tx.query(`/* now */ pragma ${setting}`))
      await expect(failing).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
      await query(store, 'insert into charge (key) values ($1)', ['after'])
      expect(await query(store, 'pragma locking_mode')).toEqual([{ locking_mode: 'normal' }])
      expect(await query(store, 'pragma busy_timeout')).toEqual([{ timeout: 0 }])
    },
  )

  it('a statement that its own transaction locks out fails as it is: nobody else is in the way', async () => {
    const store = await lab.store()
    const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
    let runs = 0
    const failing = once.run({ scope: 'a', key: 'one', input: 1 }, async ({ tx }) => {
      runs += 1
      await tx.query('insert into charge (key) values ($1)', ['one'])
      await tx.query('pragma wal_checkpoint(truncate)')
    })
    await expect(failing).rejects.toThrow(/locked/)
    expect(runs).toBe(1)
  })

  it('reaches nobody after its end', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    const handle = session.revocable()
    await handle.tx.query('insert into charge (key) values ($1)', ['mine'])
    handle.revoke()
    await expect(handle.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
    await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    // The next operation has the connection now: a stray query must not end up in its transaction.
    const next = await begin(store, makeClaim())
    await expect(handle.tx.query(`insert into charge (key) values ('stray')`)).rejects.toMatchObject({
      code: 'ONCE_TX_CLOSED',
    })
    await expect(session.tx.query(`insert into charge (key) values ('stray')`)).rejects.toMatchObject({
      code: 'ONCE_TX_CLOSED',
    })
    await next.session.rollback()
    expect(await query(store, 'select key from charge')).toEqual([{ key: 'mine' }])
  })

  it('is over when SQLite rolled back by itself: nothing after it commits alone', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    const { tx } = session.revocable()
    await tx.query('insert into charge (id, key) values (1, $1)', ['a'])
    await expect(tx.query('insert or rollback into charge (id, key) values (1, $1)', ['b'])).rejects.toThrow(/UNIQUE/)
    await expect(tx.query('insert into charge (key) values ($1)', ['c'])).rejects.toMatchObject({
      code: 'ONCE_ROLLED_BACK',
    })
    expect(await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })).toBe(
      'rolledBack',
    )
    expect(await count(store, 'charge')).toBe(0)
    expect(await store.read({ id: claim.id })).toEqual({ record: null, answer: null })
  })

  it('a constraint that is checked at the commit rolls everything back', async () => {
    const store = await lab.store()
    await query(store, 'create table line (charge integer references charge (id) deferrable initially deferred)')
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    await session.tx.query('insert into line values (99)')
    const ending = session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    await expect(ending).rejects.toThrow(/FOREIGN KEY/)
    expect(await count(store, 'line')).toBe(0)
    expect((await store.read({ id: claim.id })).record).toBeNull()
  })

  it('transaction() rolls back when its work throws', async () => {
    const store = await lab.store()
    const failing = store.transaction(async (tx) => {
      await tx.query('insert into charge (key) values ($1)', ['a'])
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await count(store, 'charge')).toBe(0)
  })
})
