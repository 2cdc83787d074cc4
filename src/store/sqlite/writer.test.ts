import { copyFileSync } from 'node:fs'
import { expect, it, vi } from 'vitest'
import { describeSqlite, ticksBefore } from '../../../test/support/sqlite.ts'
import { begin, charge, count, libraryCalled, makeAnswer, makeClaim, query } from '../../../test/support/sqlite-data.ts'

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describeSqlite('the writer', (lab) => {
  it('an unrelated request does not end up in an open transaction, nor vanish with its rollback', async () => {
    const store = await lab.store()
    const a = await begin(store, makeClaim())
    await a.session.tx.query('insert into charge (key) values ($1)', ['a'])
    const b = charge(store, makeClaim({ id: 'b' }))
    const c = query(store, 'insert into charge (key) values ($1)', ['c'])
    await wait(20)
    await a.session.rollback()
    await Promise.all([b, c])
    expect(await query(store, 'select key from charge order by id')).toEqual([{ key: 'b' }, { key: 'c' }])
  })

  it('a transaction that is held does not stop the event loop, and is committed when it asked for it', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    const waiting = charge(store, makeClaim())
    expect(await ticksBefore(waiting, 20)).toBe(20)
    const askedAt = performance.now()
    await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    expect(performance.now() - askedAt).toBeLessThan(2_000)
    await waiting
  })

  it('another connection that holds the file does not stop the event loop either', async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    const other = (await libraryCalled(lab.library)())(file)
    other.run('begin immediate')
    const waiting = charge(store, makeClaim())
    expect(await ticksBefore(waiting, 20)).toBe(20)
    other.run('commit')
    await waiting
    other.close()
    expect(await count(store, 'charge')).toBe(1)
  })

  it('gives up on a file that somebody holds too long, and works again afterwards', async () => {
    const file = lab.file()
    const store = await lab.store({ file, limits: { waitMsMax: 100 } })
    const other = (await libraryCalled(lab.library)())(file)
    other.run('begin immediate')
    const failure = { code: 'ONCE_STORE_UNAVAILABLE', status: 503, message: expect.stringContaining('locked') }
    await expect(begin(store, makeClaim())).rejects.toMatchObject(failure)
    other.run('rollback')
    other.close()
    await charge(store, makeClaim())
  })

  it('a commit that was refused leaves nothing open: others may write, and then we again', async () => {
    const file = lab.file()
    const store = await lab.store({ file, limits: { waitMsMax: 300 } })
    await query(store, 'create table line (charge integer references charge (id) deferrable initially deferred)')
    const other = (await libraryCalled(lab.library)())(file)
    const refused = store.transaction((tx) => tx.query('insert into line values (99)'))
    await expect(refused).rejects.toThrow(/FOREIGN KEY/)
    other.run(`insert into charge (key) values ('other')`)
    other.close()
    await charge(store, makeClaim())
    expect(await count(store, 'charge')).toBe(2)
  })

  it('refuses more waiters than it may have, and those who wait too long', async () => {
    const store = await lab.store({ limits: { queueMax: 2, waitMsMax: 60 } })
    const { session } = await begin(store, makeClaim())
    const waiting = [begin(store, makeClaim()), begin(store, makeClaim())]
    await expect(begin(store, makeClaim())).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL', retryable: true })
    for (const late of waiting) await expect(late).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL', status: 503 })
    await session.rollback()
    await charge(store, makeClaim())
  })

  it('warns once about a turn that is held long', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const store = await lab.store({ limits: { holdMsWarn: 30 } })
    for (let turn = 0; turn < 2; turn++) {
      const { session } = await begin(store, makeClaim())
      await wait(80)
      await session.rollback()
    }
    const ours = warn.mock.calls.filter(([, options]) => (options as { code?: string }).code === 'ONCE_WRITER_HELD')
    expect(ours).toHaveLength(1)
    warn.mockRestore()
  })

  it('ends a turn that is held too long, and tells its holder at the next call', async () => {
    const store = await lab.store({ limits: { holdMsMax: 1_500 } })
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    await session.tx.query('insert into charge (key) values ($1)', ['late'])
    const next = charge(store, makeClaim({ id: 'next' }))
    await next
    await expect(session.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
    const ending = session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    await expect(ending).rejects.toMatchObject({ code: 'ONCE_DEADLINE', status: 503 })
    await session.rollback()
    expect(await query(store, 'select key from charge')).toEqual([{ key: 'next' }])
  })

  it('goes by the deadline of the operation where that is sooner, and by the clock where the timer is late', async () => {
    const store = await lab.store()
    const { session } = await begin(store, makeClaim(), 40)
    const until = performance.now() + 60
    while (performance.now() < until);
    await expect(session.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
    await charge(store, makeClaim())
  })

  it('does not show readers what is not committed', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    expect(await store.read({ id: claim.id })).toEqual({ record: null, answer: null })
    await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    expect((await store.read({ id: claim.id })).record?.state).toBe('completed')
    expect((await store.read({ id: claim.id })).answer).toEqual(makeAnswer())
  })

  it('writes through to the disk, waits for nobody inside SQLite, and checks references', async () => {
    const store = await lab.store()
    const settings = ['journal_mode', 'synchronous', 'busy_timeout', 'foreign_keys']
    const values = await store.transaction(async (tx) => {
      const rows = []
      for (const setting of settings) rows.push(...(await tx.query(`pragma ${setting}`)).rows)
      return rows.flatMap((row) => Object.values(row))
    })
    expect(values).toEqual(['wal', 2, 0, 1])
  })

  it('a database in memory works the same', async () => {
    const store = await lab.store({ file: ':memory:' })
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    const reading = store.read({ id: claim.id })
    await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    expect((await reading).record?.state).toBe('completed')
  })

  it('after close nothing is taken any more, and what is under way ends first', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    const closing = store.close()
    await expect(begin(store, makeClaim())).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    expect(await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })).toBe(
      'committed',
    )
    await closing
    await expect(store.read({ id: claim.id })).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    await store.close()
  })

  it('after close everything is in the file itself', async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    await charge(store, makeClaim())
    await store.read({ id: 'a' })
    await store.close()
    const copy = lab.file()
    copyFileSync(file, copy)
    expect(await count(lab.bare({ file: copy }), 'charge')).toBe(1)
  })
})

it('features say what one writer can do', async () => {
  const { sqliteStore } = await import('../../entry/sqlite.ts')
  expect(sqliteStore({ file: 'shop.db' }).features).toEqual({
    transactional: true,
    concurrentClaims: false,
    serverDeadline: false,
  })
})
