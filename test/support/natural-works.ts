import { expect, it } from 'vitest'
import { insertOnce, updateIf } from '../../src/entry/natural.ts'
import type { Place } from './stores.ts'

/** What the helpers do on every SQL client. */
export function naturalWorks(place: Place): void {
  const orders = `create table "my ""orders" (id text primary key, total numeric, note text, state text, version integer, "at" timestamp)`
  const table = 'my "orders'
  const row = { id: 'o-1', total: 12.5, note: null, state: 'open', version: 1, at: '2026-11-18T10:00:00' }

  it('inserts a row once, and tells existed from differs', async () => {
    await place.bed.admin(orders)
    const insert = (more: object = {}) =>
      place.bed.own((tx) => insertOnce(tx, table, { ...row, ...more }, { unique: ['id'] }))
    expect(await insert()).toEqual({ is: 'inserted' })
    expect(await insert()).toEqual({ is: 'existed' })
    expect(await insert({ total: 13, note: 'new' })).toEqual({ is: 'differs', columns: ['total', 'note'] })
    const { rows } = { rows: await place.bed.admin(`select count(*) as n from "my ""orders"`) }
    expect(Number(rows[0]?.['n'])).toBe(1)
  })

  it('updates a row once, and tells already, stale and missing apart', async () => {
    const update = (set: object, expected: object, id = 'o-1') =>
      place.bed.own((tx) => updateIf(tx, table, { set: { ...set }, where: { id }, expect: { ...expected } }))
    expect(await update({ state: 'paid', version: 2 }, { state: 'open', version: 1 })).toBe('updated')
    expect(await update({ state: 'paid', version: 2 }, { state: 'open', version: 1 })).toBe('already')
    expect(await update({ state: 'cancelled', version: 2 }, { state: 'open', version: 1 })).toBe('stale')
    expect(await update({ state: 'paid' }, { state: 'open' }, 'o-2')).toBe('missing')
    expect(await update({ note: 'x' }, { note: null })).toBe('updated')
  })

  it('works with the tx of an operation, and leaves nothing behind when the operation fails', async () => {
    const once = place.once()
    const run = (key: string, fail: boolean) =>
      once.run({ scope: 'global', key, input: null }, async ({ tx }) => {
        const inserted = await insertOnce(tx, table, { ...row, id: 'o-3' }, { unique: ['id'] })
        if (fail) throw new Error('no')
        const change = { set: { state: 'paid' }, where: { id: 'o-3' }, expect: { state: 'open' } }
        return [inserted.is, await updateIf(tx, table, change)]
      })
    await expect(run('natural-1', true)).rejects.toThrow('no')
    expect(await run('natural-2', false)).toEqual(['inserted', 'updated'])
  })

  it('refuses an update of several rows, and the transaction rolls back', async () => {
    const change = { set: { version: 9 }, where: { state: 'paid' }, expect: { version: 1 } }
    await place.bed.own((tx) => insertOnce(tx, table, { ...row, id: 'o-4', state: 'paid' }, { unique: ['id'] }))
    await expect(place.bed.own((tx) => updateIf(tx, table, change))).rejects.toThrow('where must name one row')
    const found = await place.bed.admin(`select id from "my ""orders" where version = 9`)
    expect(found).toEqual([])
  })
}
