import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { begin, libraryCalled, makeAnswer, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import { MIGRATIONS } from './migrations.ts'

const NEWEST = MIGRATIONS.length

describeSqlite('the schema', (lab) => {
  it('is made once', async () => {
    const store = lab.bare()
    expect(await store.schema.version()).toBe(0)
    expect(await store.schema.migrate()).toEqual({ from: 0, to: NEWEST })
    expect(await store.schema.migrate()).toEqual({ from: NEWEST, to: NEWEST })
    expect(await store.schema.version()).toBe(NEWEST)
  })

  it('is refused when it is newer than this code', async () => {
    const store = await lab.store()
    await query(store, 'insert into effectively_once_version (version, applied_at) values (99, 0)')
    await expect(store.schema.migrate()).rejects.toMatchObject({
      code: 'ONCE_SCHEMA_NEWER',
      message: expect.stringContaining('99'),
    })
    expect(await store.schema.version()).toBe(99)
  })

  it('is made whole or not at all', async () => {
    const store = lab.bare()
    await query(store, 'create table effectively_once_step (in_the_way)')
    await expect(store.schema.migrate()).rejects.toThrow(/already exists/)
    expect(await query(store, `select name from sqlite_master where name like 'effectively%'`)).toEqual([
      { name: 'effectively_once_step' },
    ])
  })

  it('can be applied by hand', async () => {
    const [byHand, byUs] = [lab.file(), lab.file()]
    const store = lab.bare({ file: byUs })
    await store.schema.migrate()
    const client = (await libraryCalled(lab.library)())(byHand)
    for (const statement of store.schema.sql().split(/;$/m)) if (statement.trim() !== '') client.run(statement)
    client.close()
    const other = lab.bare({ file: byHand })
    expect(await other.schema.version()).toBe(NEWEST)
    expect(await other.schema.migrate()).toEqual({ from: NEWEST, to: NEWEST })
    const tables = 'select name, sql from sqlite_master order by name'
    expect(await query(other, tables)).toEqual(await query(store, tables))
  })

  it('whoever uses it before it is there is told what to run', async () => {
    const store = lab.bare({ limits: { waitMsMax: 1_000 } })
    const told = { code: 'ONCE_NOT_MIGRATED', message: expect.stringContaining('Run: npx effectively-once migrate') }
    const claim = makeClaim()
    await expect(begin(store, claim)).rejects.toMatchObject(told)
    await expect(store.read({ id: 'a' })).rejects.toMatchObject(told)
    await expect(store.refuse({ claim, answer: makeAnswer() })).rejects.toMatchObject(told)
    await expect(store.leases.claim({ claim, leaseMs: 1_000, recover: null })).rejects.toMatchObject(told)
    await expect(store.batches.open({ claims: [claim], deadlineMs: 5_000, rerun: false })).rejects.toMatchObject(told)
    await expect(store.retention.sweep({ limit: 10, replayForMs: 1_000 })).rejects.toMatchObject(told)
    // And nobody was left holding the writer meanwhile.
    await store.schema.migrate()
    const { session } = await begin(store, claim)
    await session.rollback()
  })
})
