import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { age, charge, count, libraryCalled, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import type { OpenFile } from './client.ts'
import type { SqliteStore } from './sqlite.ts'
import type { Bindable } from './value.ts'

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
    await store.leases.finish({
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
      skipped: false,
      troubles: [],
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
       select 'k' || i, 's', 'f', 1, 2, 1, 1, 1, null, 1, 1, null, null, null from n`,
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

  it('finds what is due by an index: no large table is walked through', async () => {
    const texts = new Set<string>()
    const open = await libraryCalled(lab.library)()
    const watched: OpenFile = (file) => {
      const client = open(file)
      const noted = <R>(work: (sql: string, values?: readonly Bindable[]) => R) => {
        return (sql: string, values?: readonly Bindable[]): R => {
          texts.add(sql)
          return work(sql, values)
        }
      }
      return {
        library: client.library,
        returnsRows: (sql) => client.returnsRows(sql),
        all: noted((sql, values) => client.all(sql, values)),
        run: noted((sql, values) => client.run(sql, values)),
        inTransaction: () => client.inTransaction(),
        close: () => client.close(),
      }
    }
    const file = lab.file()
    const store = await lab.store({ file, library: async () => watched })
    await store.outbox.open({ destination: 'd' })
    await store.inbox.open({ consumer: 'c', inboxForMs: 1_000, rememberForMs: 2_000, lettersForMs: 1_000 })
    texts.clear()
    await store.retention.sweep({ limit: 100, replayForMs: 1_000, resendForMs: 1_000 })
    await store.inbox.sweep({ limit: 100 })
    const large = /effectively_once_(?:record|answer|event|inbox|mark)\b(?: (?!where|set|limit|order)(\w+))?/g
    const walked: string[] = []
    const looker = open(file)
    for (const text of [...texts].filter((text) => /^(select|delete|update)/.test(text))) {
      const names = [...text.matchAll(large)].flatMap(([whole, alias]) => [whole.split(' ')[0], alias ?? ''])
      const plan = looker.all(`explain query plan ${text.replaceAll('?', '1')}`)
      for (const line of plan.map((row) => String(row['detail'])))
        if (line.startsWith('SCAN') && names.includes(line.split(' ')[1])) walked.push(`${line}: ${text}`)
    }
    looker.close()
    expect(texts.size).toBeGreaterThan(8)
    expect(walked).toEqual([])
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
