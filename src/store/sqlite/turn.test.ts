import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { begin, charge, count, libraryCalled, makeAnswer, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import type { Client, Library, OpenFile } from './client.ts'

const BUSY = 5
const IO = 10

/** A library whose connections do something else on `commit` or `rollback`; undefined lets the statement through. */
function faulty(library: Library, fault: (sql: string, client: Client) => Error | undefined): () => Promise<OpenFile> {
  return async () => {
    const open = await libraryCalled(library)()
    return (file) => {
      const client = open(file)
      const run: Client['run'] = (sql, values) => {
        const error = /^(?:commit|rollback)$/.test(sql) ? fault(sql, client) : undefined
        if (error) throw error
        return client.run(sql, values)
      }
      return { ...client, run }
    }
  }
}

function failure(errcode: number, message: string): Error {
  return Object.assign(new Error(message), { errcode })
}

describeSqlite('a commit that fails', (lab) => {
  it('is tried again while somebody is in the way', async () => {
    let left = 0
    const library = faulty(lab.library, (sql) => (sql === 'commit' && left-- > 0 ? failure(BUSY, 'busy') : undefined))
    const store = await lab.store({ library })
    left = 3
    await charge(store, makeClaim())
    expect(left).toBe(-1)
    expect(await count(store, 'charge')).toBe(1)
  })

  it('is given up at the deadline', async () => {
    let busy = false
    const library = faulty(lab.library, (sql) => (busy && sql === 'commit' ? failure(BUSY, 'busy') : undefined))
    const store = await lab.store({ library })
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim, 1_000)
    busy = true
    const ending = session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    await expect(session.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
    await expect(ending).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
    busy = false
    expect(await store.read({ id: claim.id })).toEqual({ record: null, answer: null })
    await charge(store, claim)
  })

  it('without being rolled back by SQLite has committed nothing', async () => {
    let broken = false
    const library = faulty(lab.library, (sql) =>
      broken && sql === 'commit' ? failure(IO, 'disk I/O error') : undefined,
    )
    const store = await lab.store({ library })
    const claim = makeClaim()
    broken = true
    await expect(charge(store, claim)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    broken = false
    expect((await store.read({ id: claim.id })).record).toBeNull()
    await charge(store, claim)
  })

  it('with the transaction gone may have committed: nobody knows', async () => {
    let lost = false
    const library = faulty(lab.library, (sql, client) => {
      if (!lost || sql !== 'commit') return undefined
      client.run(sql)
      return failure(IO, 'disk I/O error')
    })
    const store = await lab.store({ library })
    const claim = makeClaim()
    lost = true
    await expect(charge(store, claim)).rejects.toMatchObject({ code: 'ONCE_COMMIT_UNKNOWN', status: 503 })
    lost = false
    const retry = await store.begin({ claim, deadlineMs: 1_000 })
    expect(retry.view).toMatchObject({ inserted: false, record: { state: 'completed' } })
    await retry.session.rollback()
  })

  it('a rollback that fails is made up for before the next turn', async () => {
    let broken = false
    const library = faulty(lab.library, () => (broken ? failure(IO, 'disk I/O error') : undefined))
    const store = await lab.store({ library })
    const { session } = await begin(store, makeClaim())
    await session.tx.query('insert into charge (key) values ($1)', ['lost'])
    broken = true
    await session.rollback()
    await expect(session.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
    await expect(charge(store, makeClaim())).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    broken = false
    await charge(store, makeClaim({ id: 'next' }))
    expect(await query(store, 'select key from charge')).toEqual([{ key: 'next' }])
  })
})
