import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { age, charge, count, makeAnswer, makeClaim, makeEvent, query } from '../../../test/support/sqlite-data.ts'
import type { Claim, Claimed } from '../store.ts'

const INSERT = 'insert into charge (key, amount) values ($1, $2) returning id, key'

describeSqlite('a batch', (lab) => {
  const claims = () => ['a', 'b', 'c'].map((id) => makeClaim({ id }))
  const items = (won: ReadonlyMap<string, Claimed>, all: readonly Claim[]) =>
    all.flatMap((claim) => {
      const claimed = won.get(claim.id)
      return claimed ? [{ claim, claimed, answer: makeAnswer(claim.id), events: [makeEvent()] }] : []
    })

  it('commits many operations together; who lost is not among the winners', async () => {
    const store = await lab.store()
    await charge(store, makeClaim({ id: 'b' }))
    const all = claims()
    const { session, won } = await store.batches.open({ claims: all, deadlineMs: 1_000, rerun: false })
    expect([...won.keys()]).toEqual(['a', 'c'])
    const outcome = await session.effects([
      { sql: INSERT, values: ['a', 1] },
      { sql: INSERT, values: ['c', 2] },
    ])
    expect(outcome).toEqual({ kind: 'done', rows: [[{ id: 2, key: 'a' }], [{ id: 3, key: 'c' }]] })
    expect(await session.complete(items(won, all))).toBe('committed')
    expect((await store.read({ id: 'c' })).answer).toEqual(makeAnswer('c'))
    expect([await count(store, 'charge'), await count(store, 'effectively_once_event')]).toEqual([3, 2])
  })

  it.each([
    ['forgotten', false, 120_000, true],
    ['expired', false, 60_000, false],
    ['expired', true, 60_000, true],
    ['live', true, 0, false],
  ])('a key that is %s, rerun %s', async (_, rerun, ms, wins) => {
    const store = await lab.store()
    const claim = makeClaim({ id: 'b' })
    const first = await charge(store, claim)
    await age(store, 'b', ms)
    const { session, won } = await store.batches.open({ claims: [claim], deadlineMs: 1_000, rerun })
    expect(won.has('b')).toBe(wins)
    await session.complete(items(won, [claim]))
    expect((await store.read({ id: 'b' })).answer).toEqual(makeAnswer(wins ? 'b' : 'done'))
    if (wins) expect(BigInt(won.get('b')!.life)).toBeGreaterThan(BigInt(first.life))
  })

  it('each statement sees the ones before it', async () => {
    const store = await lab.store()
    await query(store, 'create table account (balance integer check (balance >= 0))')
    await query(store, 'insert into account values (100)')
    const { session } = await store.batches.open({ claims: claims(), deadlineMs: 1_000, rerun: false })
    const debit = {
      sql: 'update account set balance = balance - $1 where balance >= $1 returning balance',
      values: [60],
    }
    const outcome = await session.effects([debit, debit, debit])
    expect(outcome).toEqual({ kind: 'done', rows: [[{ balance: 40 }], [], []] })
    await session.rollback()
  })

  it.each(['insert into charge (id, key) values (1, $1)', 'commit', 'savepoint x', 'rollback to x'])(
    'one failure rolls everything back and is named: %s',
    async (sql) => {
      const store = await lab.store()
      const all = claims()
      const { session, won } = await store.batches.open({ claims: all, deadlineMs: 1_000, rerun: false })
      const outcome = await session.effects([
        { sql: 'insert into charge (id, key) values ($1, $2)', values: [1, 'a'] },
        { sql, values: sql.includes('$1') ? ['b'] : [] },
        { sql: INSERT, values: ['c', 2] },
      ])
      expect(outcome).toMatchObject({ kind: 'failed', index: 1, error: expect.any(Error) })
      await expect(session.complete(items(won, all))).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
      expect([await count(store, 'charge'), await count(store, 'effectively_once_record')]).toEqual([0, 0])
    },
  )

  it.each([0, 1, 2])('a statement that takes too long is told behind it: %i', async (slow) => {
    const store = await lab.store()
    const { session } = await store.batches.open({ claims: claims(), deadlineMs: 60, rerun: false })
    const COUNT =
      'with recursive n(i) as (select 1 union all select i + 1 from n where i < $1) select count(*) as c from n'
    const outcome = await session.effects(
      claims().map((_, i) => ({ sql: COUNT, values: [i === slow ? 3_000_000 : 1] })),
    )
    expect(outcome).toMatchObject({ kind: 'ended', index: slow, late: true, error: { code: 'ONCE_DEADLINE' } })
    await session.rollback()
  })

  it('has room for what one batch may hold', async () => {
    const store = await lab.store()
    const limit = await store.batches.limit()
    const all = Array.from({ length: limit }, (_, n) => makeClaim({ id: `key-${n}` }))
    const { session, won } = await store.batches.open({ claims: all, deadlineMs: 5_000, rerun: false })
    expect(won.size).toBe(limit)
    await session.effects(all.map((claim) => ({ sql: INSERT, values: [claim.id, 1] })))
    await session.complete(items(won, all))
    expect(await count(store, 'effectively_once_answer')).toBe(limit)
  })
})
