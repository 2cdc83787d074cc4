import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { age, charge, count, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import type { SqliteStore } from './sqlite.ts'

const DAY_MS = 86_400_000
const FORGOTTEN_MS = 120_000

function sweep(store: SqliteStore, limit = 10_000, signal?: AbortSignal) {
  return store.retention.sweep({ limit, replayForMs: 60_000, signal })
}

async function ids(store: SqliteStore): Promise<unknown[]> {
  return (await query(store, 'select id from effectively_once_record order by id')).map((row) => row['id'])
}

describeSqlite('the sweeper', (lab) => {
  it('removes what may be forgotten, with all that belongs to it, and nothing else', async () => {
    const store = await lab.store()
    for (const id of ['forgotten', 'gone', 'live']) await charge(store, makeClaim({ id }))
    const { claimed } = await store.leases.claim({ claim: makeClaim({ id: 'leased' }), leaseMs: 1_000, recover: null })
    const held = { id: 'leased', token: claimed!.token, life: claimed!.life }
    await store.leases.finishStep({ ...held, name: 's', result: '1' })
    await store.leases.refuse({
      ...held,
      claim: makeClaim(),
      answer: { status: 400, headers: [], body: null, kept: true },
    })
    for (const id of ['forgotten', 'leased']) await age(store, id, FORGOTTEN_MS)
    await age(store, 'gone', 60_000)
    expect(await sweep(store)).toEqual({
      records: 2,
      events: 0,
      miscounted: [],
      suspended: 0,
      partitionsDropped: 0,
      partitionsBusy: 0,
      finished: true,
    })
    expect(await ids(store)).toEqual(['gone', 'live'])
    expect(await count(store, 'effectively_once_answer')).toBe(2)
    expect(await count(store, 'effectively_once_step')).toBe(0)
  })

  it('never removes what is in progress or unknown; past its time it turns unknown', async () => {
    const store = await lab.store()
    for (const id of ['lapsed', 'overdue', 'held', 'unknown']) {
      const { claimed } = await store.leases.claim({ claim: makeClaim({ id }), leaseMs: 1_000, recover: null })
      if (id === 'unknown') await store.leases.suspend({ id, token: claimed!.token })
    }
    await age(store, 'lapsed', 2_000)
    for (const id of ['overdue', 'held', 'unknown']) await age(store, id, 10 * DAY_MS)
    await query(store, `update effectively_once_record set lease_until = lease_until + $1 where id = 'held'`, [
      20 * DAY_MS,
    ])
    expect(await sweep(store)).toMatchObject({ records: 0, suspended: 1, finished: true })
    expect(await query(store, 'select id, state from effectively_once_record order by id')).toEqual([
      { id: 'held', state: 1 },
      { id: 'lapsed', state: 1 },
      { id: 'overdue', state: 3 },
      { id: 'unknown', state: 3 },
    ])
  })

  it('stops at its limit, and says that there may be more', async () => {
    const store = await lab.store()
    await query(
      store,
      `insert into effectively_once_record with n(i) as (select 1 union all select i + 1 from n where i < 700)
       select 'k' || i, 's', 'f', 1, 2, 1, 1, 1, null, 1, 1 from n`,
    )
    expect(await sweep(store, 300)).toMatchObject({ records: 300, finished: false })
    expect(await sweep(store, 300)).toMatchObject({ records: 300, finished: false })
    expect(await sweep(store, 300)).toMatchObject({ records: 100, finished: true })
  })

  it('stops when told to', async () => {
    const store = await lab.store()
    await charge(store, makeClaim({ id: 'a' }))
    await age(store, 'a', FORGOTTEN_MS)
    expect(await sweep(store, 100, AbortSignal.abort())).toMatchObject({ records: 0, finished: false })
    expect(await ids(store)).toEqual(['a'])
  })

  it('removes answers after their day, but not the answer of a live record', async () => {
    const store = await lab.store()
    for (const id of ['gone', 'live']) await charge(store, makeClaim({ id }))
    await query(store, `update effectively_once_answer set day = '2020-01-01'`)
    await age(store, 'gone', 60_000)
    expect(await sweep(store)).toMatchObject({ records: 0, finished: true })
    expect(await ids(store)).toEqual(['gone', 'live'])
    expect((await store.read({ id: 'gone' })).answer).toBeNull()
    expect((await store.read({ id: 'live' })).answer).not.toBeNull()
  })

  it('a key that was forgotten is new, with a token that its zombie never had', async () => {
    const store = await lab.store()
    const claim = makeClaim({ id: 'again' })
    const first = await charge(store, claim)
    await age(store, 'again', FORGOTTEN_MS)
    await sweep(store)
    const second = await charge(store, claim)
    expect(BigInt(second.token)).toBeGreaterThan(BigInt(first.token))
    expect(await count(store, 'charge')).toBe(2)
  })
})
