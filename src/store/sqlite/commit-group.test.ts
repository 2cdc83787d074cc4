import { expect, it } from 'vitest'
import { describeSqlite, type Lab } from '../../../test/support/sqlite.ts'
import { charge, count, libraryCalled, makeAnswer, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import { effectivelyOnce } from '../../index.ts'
import type { OpenFile } from './client.ts'
import type { SqliteStore } from './sqlite.ts'

/** Counts the commits of the writer, and may refuse one, or one of another statement. */
function watched(lab: Lab): { library: () => Promise<OpenFile>; commits: number; refuse: boolean; fail: string } {
  const failed = (): Error => Object.assign(new Error('disk I/O error'), { errcode: 10 })
  const watch = {
    commits: 0,
    refuse: false,
    fail: 'nothing',
    library: async (): Promise<OpenFile> => {
      const open = await libraryCalled(lab.library)()
      return (file) => {
        const client = open(file)
        return {
          ...client,
          run(sql, values) {
            if (sql === 'commit') watch.commits += 1
            if (sql === 'commit' && watch.refuse) {
              watch.refuse = false
              throw failed()
            }
            if (sql.startsWith(watch.fail)) {
              watch.fail = 'nothing'
              throw failed()
            }
            return client.run(sql, values)
          },
          all(sql, values) {
            if (sql.startsWith(watch.fail)) {
              watch.fail = 'nothing'
              throw failed()
            }
            return client.all(sql, values)
          },
        }
      }
    },
  }
  return watch
}

function onceOn(store: SqliteStore) {
  return effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
}

/** The machine may be busy: no turn counts as slow. */
const PATIENT = { sharedMsMax: 10_000 }
const INSERT = 'insert into charge (key, amount) values ($1, $2)'
const keys = (count: number): string[] => Array.from({ length: count }, (_, index) => `key-${index}`)

describeSqlite('operations that wait for the writer', (lab) => {
  it('share a commit, and each is there', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: PATIENT })
    watch.commits = 0
    await Promise.all(keys(40).map((id) => charge(store, makeClaim({ id }))))
    expect(watch.commits).toBeLessThan(20)
    expect(await count(store, 'charge')).toBe(40)
    expect(await count(store, 'effectively_once_answer')).toBe(40)
  })

  it('share a commit with so many others at most', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: { ...PATIENT, sharedTurnsMax: 2 } })
    watch.commits = 0
    await Promise.all(keys(12).map((id) => charge(store, makeClaim({ id }))))
    expect(watch.commits).toBeGreaterThanOrEqual(6)
    expect(await count(store, 'charge')).toBe(12)
  })

  it('hear nothing before the commit: where it fails, all of them run again or are told', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: PATIENT })
    watch.refuse = true
    const results = await Promise.allSettled(keys(10).map((id) => charge(store, makeClaim({ id }))))
    const told = results.filter(({ status }) => status === 'fulfilled').length
    expect(told).toBeLessThan(10)
    expect(await count(store, 'charge')).toBe(told)
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
  })

  it('one that fails takes nobody with it', async () => {
    const store = await lab.store({ limits: PATIENT })
    const once = onceOn(store)
    const results = await Promise.allSettled(
      keys(20).map((key, index) =>
        once.run({ scope: 'a', key, input: index }, async ({ tx }) => {
          await tx.query(INSERT, [key, index])
          if (index % 4 === 0) throw new Error('no money')
          return index
        }),
      ),
    )
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(5)
    expect(await query(store, 'select amount from charge where amount % 4 = 0')).toEqual([])
    expect(await count(store, 'charge')).toBe(15)
    expect(await count(store, 'effectively_once_record')).toBe(15)
  })

  it('a record is replayed only when it is committed', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: PATIENT })
    const claim = makeClaim()
    const [first, second] = await Promise.all([
      store.begin({ claim, deadlineMs: 5_000 }).then(async ({ session, claimed }) => {
        if (!claimed) throw new Error('the key was not new')
        await session.tx.query(INSERT, [claim.id, 1])
        watch.refuse = true
        return session
          .complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
          .catch((error: unknown) => error)
      }),
      store.begin({ claim, deadlineMs: 5_000 }).then(async ({ view, session }) => {
        await session.rollback()
        return view
      }),
    ])
    // The commit failed: whoever came second must not have seen a record that never was.
    expect(first).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    expect(second).toMatchObject({ inserted: true, record: null })
    expect(await count(store, 'charge')).toBe(0)
  })

  it('a message is a duplicate only when its effect is committed', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: PATIENT })
    const item = { id: 'hash', lock: '1', source: 'shop', message: 'one', aggregate: null, previous: null }
    const take = () => store.inbox.take({ consumer: 'ledger', items: [item], deadlineMs: 5_000 })
    await store.inbox.open({ consumer: 'ledger', inboxForMs: 60_000, rememberForMs: 60_000, lettersForMs: 60_000 })
    const [first, second] = await Promise.all([
      take().then(async ({ session }) => {
        watch.refuse = true
        return session
          .complete({ consumer: 'ledger', events: [], tried: [], positions: null })
          .catch((error: unknown) => error)
      }),
      take().then(async ({ states, session }) => {
        await session.rollback()
        return states
      }),
    ])
    // The commit failed: the second delivery of the message must not be acknowledged.
    expect(first).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    expect(second).toEqual(['taken'])
  })

  it('two instances with one key: one runs, the other replays', async () => {
    const store = await lab.store({ limits: PATIENT })
    const run = (amount: number) =>
      onceOn(store).run({ scope: 'a', key: 'one', input: 1 }, async ({ tx }) => {
        await tx.query(INSERT, ['one', amount])
        return amount
      })
    const answers = await Promise.all([run(1), run(2), run(3)])
    expect(new Set(answers).size).toBe(1)
    expect(await count(store, 'charge')).toBe(1)
  })

  it('a constraint that only the commit checks keeps operations apart: its own operation alone hears of it', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: PATIENT })
    const once = onceOn(store)
    await query(store, 'create table account (id integer primary key)')
    await query(
      store,
      'create table debit (id integer primary key, account integer references account (id) deferrable initially deferred)',
    )
    await query(store, 'insert into account values (1)')
    watch.commits = 0
    const results = await Promise.allSettled(
      keys(12).map((key, index) =>
        once.run({ scope: 'a', key, input: index }, async ({ tx }) => {
          await tx.query('insert into debit (account) values ($1)', [index === 5 ? 404 : 1])
          return index
        }),
      ),
    )
    const failed = results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))
    expect(failed).toEqual([5])
    expect(String((results[5] as PromiseRejectedResult).reason)).toMatch(/foreign key/i)
    expect(watch.commits).toBeGreaterThanOrEqual(12)
    expect(await count(store, 'debit')).toBe(11)
  })

  it('a statement that rolls everything back is told to its own operation alone', async () => {
    const store = await lab.store({ limits: PATIENT })
    const once = onceOn(store)
    await query(store, 'create table unique_charge (amount integer unique)')
    await query(store, 'insert into unique_charge values (7)')
    const results = await Promise.allSettled(
      keys(12).map((key, index) =>
        once.run({ scope: 'a', key, input: index }, async ({ tx }) => {
          await tx.query('insert or rollback into unique_charge values ($1)', [index === 6 ? 7 : 100 + index])
          return index
        }),
      ),
    )
    expect(results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([6])
    expect(await count(store, 'unique_charge')).toBe(12)
  })

  it('after one has rolled the others back, each commits alone: nobody else is lost any more', async () => {
    const store = await lab.store({ limits: PATIENT })
    await query(store, 'create table unique_charge (amount integer unique)')
    await query(store, 'insert into unique_charge values (7)')
    const mistake = () => store.transaction((tx) => tx.query('insert or rollback into unique_charge values (7)'))
    const good = (amount: number) =>
      store.transaction((tx) => tx.query('insert into unique_charge values ($1)', [amount]))
    await Promise.allSettled([good(100), mistake(), good(101), mistake()])
    const results = await Promise.allSettled(keys(12).map((_, index) => (index % 2 ? mistake() : good(index * 10))))
    const lost = results.flatMap(({ status }, index) => (status === 'rejected' && index % 2 === 0 ? [index] : []))
    expect(lost).toEqual([])
  })

  it('a short write of ours that is lost with it is written again', async () => {
    const store = await lab.store({ limits: PATIENT })
    await query(store, 'create table unique_charge (amount integer unique)')
    await query(store, 'insert into unique_charge values (7)')
    const keptFor = { inboxForMs: 60_000, rememberForMs: 60_000, lettersForMs: 60_000 }
    const written = keys(8).map((consumer) => store.inbox.open({ consumer, ...keptFor }))
    const mistake = store.transaction((tx) => tx.query('insert or rollback into unique_charge values (7)'))
    const results = await Promise.allSettled([...written, mistake])
    expect(results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([8])
    expect(await count(store, 'effectively_once_consumer')).toBe(8)
  })

  it.each(['savepoint', 'pragma schema_version'])(
    'a disk that fails at "%s" leaves a writer that works',
    async (sql) => {
      const watch = watched(lab)
      const store = await lab.store({ library: watch.library, limits: PATIENT })
      watch.fail = sql
      const results = await Promise.allSettled(keys(10).map((id) => charge(store, makeClaim({ id }))))
      expect(watch.fail).toBe('nothing')
      expect(results.filter(({ status }) => status === 'rejected').length).toBeLessThanOrEqual(1)
      await charge(store, makeClaim({ id: 'after' }))
      expect(await count(store, 'charge')).toBe(results.filter(({ status }) => status === 'fulfilled').length + 1)
    },
  )

  it('after a slow one each commits alone, so that nobody waits for others', async () => {
    const watch = watched(lab)
    const store = await lab.store({ library: watch.library, limits: { sharedMsMax: 30 } })
    const claim = makeClaim()
    const { session, claimed } = await store.begin({ claim, deadlineMs: 5_000 })
    if (!claimed) throw new Error('the key was not new')
    await new Promise((resolve) => setTimeout(resolve, 40))
    await session.complete({ claim, claimed, answer: makeAnswer(), events: [], fenced: false })
    watch.commits = 0
    await Promise.all(keys(10).map((id) => charge(store, makeClaim({ id }))))
    expect(watch.commits).toBe(10)
  })
})
