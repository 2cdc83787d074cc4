import { expect, it } from 'vitest'
import { deterministicId, insertOnce, updateIf } from '../../src/entry/natural.ts'
import { naturalWorks } from '../support/natural-works.ts'
import { describeAll, describeClient } from '../support/stores.ts'

describeAll('the helpers without a key', (place) => naturalWorks(place))

describeClient('deterministicId', 'pg', (place) => {
  it('has the same bits in PostgreSQL', async () => {
    const text = `select encode(sha256(string_agg(convert_to(octet_length(part) || ':' || part || ',', 'UTF8'), '' order by at)), 'hex') as hex from unnest($1::text[]) with ordinality as p (part, at)`
    /** All but the version and the variant. */
    const bits = (hex: string): string => hex.slice(0, 12) + hex.slice(13, 16) + hex.slice(17, 32)
    for (const [namespace, part] of [['invoices', 'a\\b'] as const, ['städte', 'Zürich 🦔'] as const]) {
      const [row] = await place.bed.admin(text, [[namespace, part]])
      expect(bits(deterministicId(namespace, part).replaceAll('-', ''))).toBe(bits(String(row?.['hex'])))
    }
  })

  it('takes bytes, dates and the values of JSON, and finds them again', async () => {
    const types = 'raw bytea, words bytea, sent timestamptz, tags text[], state jsonb, total numeric, is_new boolean'
    await place.bed.admin(`create table parcels (id text primary key, ${types})`)
    const row = {
      id: 'p-1',
      raw: Buffer.from([0, 255]),
      words: new Uint16Array([1, 2]),
      sent: new Date(0),
      tags: ['a', null],
      state: { at: new Date(0), gone: undefined, list: [1.5, true, null, { toJSON: () => 'x' }] },
      total: 2n ** 70n,
      is_new: false,
    }
    const insert = () => place.bed.own((tx) => insertOnce(tx, 'parcels', row, { unique: ['id'] }))
    expect([await insert(), await insert()]).toEqual([{ is: 'inserted' }, { is: 'existed' }])
    const [found] = await place.bed.admin('select raw, words, sent, tags, state, total, is_new from parcels')
    expect(found).toEqual({
      raw: row.raw,
      words: Buffer.from([1, 0, 2, 0]),
      sent: new Date(0),
      tags: ['a', null],
      state: { at: '1970-01-01T00:00:00.000Z', list: [1.5, true, null, 'x'] },
      total: String(2n ** 70n),
      is_new: false,
    })
  })

  it('refuses a column without equality at the first call, not at its repetition', async () => {
    await place.bed.admin('create table places (id int primary key, at point, seen json, state text)')
    await place.bed.admin(`insert into places values (1, null, null, 'new')`)
    const missing = /operator does not exist: (point = point|json = json)/
    for (const more of [{ at: '(1,2)' }, { seen: { a: 1 } }]) {
      const insert = (tx: unknown) => insertOnce(tx, 'places', { id: 2, ...more }, { unique: ['id'] })
      await expect(place.bed.own(insert)).rejects.toThrow(missing)
      const change = { set: { state: 'seen', ...more }, where: { id: 1 }, expect: { state: 'new' } }
      await expect(place.bed.own((tx) => updateIf(tx, 'places', change))).rejects.toThrow(missing)
    }
    expect(await place.bed.admin('select id, state from places')).toEqual([{ id: 1, state: 'new' }])
  })

  it('decides two inserts at once by the unique constraint', async () => {
    await place.bed.admin('create table invoices (id uuid primary key, total bigint, sent timestamptz, raw bytea)')
    const id = deterministicId('invoices', 1)
    const row = { id, total: 2n ** 60n, sent: new Date(0), raw: new Uint8Array([1, 2]) }
    const insert = () => place.bed.own((tx) => insertOnce(tx, 'public.invoices', row, { unique: ['id'] }))
    const made = await Promise.all(Array.from({ length: 8 }, insert))
    expect(made.filter(({ is }) => is === 'inserted')).toHaveLength(1)
    expect(made.filter(({ is }) => is === 'existed')).toHaveLength(7)
  })
})
