import { describe, expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { libraryCalled } from '../../../test/support/sqlite-data.ts'
import { findLibrary } from './library.ts'
import { sqliteStore } from './sqlite.ts'

describe('the library', () => {
  it('is node:sqlite where this Node has it, else libsql', async () => {
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    const builtin = major > 22 || (major === 22 && minor >= 13)
    const client = (await findLibrary())(':memory:')
    expect(client.library).toBe(builtin ? 'node:sqlite' : 'libsql')
    client.close()
  })

  it('is named when it is missing', async () => {
    const none = { builtin: () => undefined, libsql: () => Promise.reject(new Error('Cannot find package libsql')) }
    await expect(findLibrary(none)).rejects.toMatchObject({
      code: 'ONCE_PEER_MISSING',
      message: expect.stringContaining('Run: npm i libsql'),
    })
  })

  it('is not looked for before the first use', () => {
    expect(() => sqliteStore({ file: '/nowhere/shop.db' })).not.toThrow()
  })

  it.each(['', undefined, 'https://example.com/shop', 'libsql://shop'])('a file is needed, not %s', (file) => {
    expect(() => sqliteStore({ file: file as string })).toThrow(/ONCE_OPTION_INVALID/)
  })
})

describeSqlite('a client', (lab) => {
  const open = async () => (await libraryCalled(lab.library)())(lab.file())

  it('reads every integer exactly, bytes as bytes, rows as plain objects', async () => {
    const client = await open()
    const sql = `select 5 as small, 9007199254740993 as large, -9223372036854775808 as least, 1.5 as real, x'01' as bytes, null as empty`
    const [row] = client.all(sql)
    expect(row).toStrictEqual({
      small: 5,
      large: 9007199254740993n,
      least: -(2n ** 63n),
      real: 1.5,
      bytes: new Uint8Array([1]),
      empty: null,
    })
    expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
    client.close()
  })

  it('tells empty bytes from none', async () => {
    const client = await open()
    expect(client.all('select ? as a, ? as b', [new Uint8Array(0), null])).toStrictEqual([
      { a: new Uint8Array(0), b: null },
    ])
    client.close()
  })

  it('knows whether it is in a transaction, also after SQLite rolled back by itself', async () => {
    const client = await open()
    client.run('create table a (id integer primary key)')
    expect(client.inTransaction()).toBe(false)
    client.run('begin immediate')
    client.run('insert into a values (1)')
    expect(client.inTransaction()).toBe(true)
    expect(() => client.run('insert into a values (1)')).toThrow(/UNIQUE/)
    expect(client.inTransaction()).toBe(true)
    expect(() => client.run('insert or rollback into a values (1)')).toThrow(/UNIQUE/)
    expect(client.inTransaction()).toBe(false)
    expect(client.all('select * from a')).toEqual([])
    client.close()
  })

  it('knows which statements give rows', async () => {
    const client = await open()
    client.run('create table a (id integer primary key)')
    const rows = [
      'select 1',
      'values (1)',
      'insert into a values (1) returning id',
      'with b as (select 1) select * from b',
      'pragma user_version',
    ]
    const none = [
      'insert into a values (1)',
      'begin',
      'with b as (select 1) insert into a select * from b',
      'create table c (returning_id)',
    ]
    expect(rows.map((sql) => client.returnsRows(sql))).toEqual(rows.map(() => true))
    expect(none.map((sql) => client.returnsRows(sql))).toEqual(none.map(() => false))
    client.close()
  })

  it('prepares more texts than it keeps', async () => {
    const client = await open()
    for (let n = 0; n < 1_200; n++) expect(client.all(`select ${n} as n`)).toEqual([{ n }])
    expect(client.all('select 0 as n')).toEqual([{ n: 0 }])
    client.close()
  })

  it('cannot open what is not there', async () => {
    const store = lab.bare({ file: '/nowhere/at/all/shop.db' })
    await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
  })
})
