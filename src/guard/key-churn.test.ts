import { expect, it } from 'vitest'
import { witness } from '../../test/support/guard-witness.ts'
import { createOnce } from '../once/once.ts'
import { systemParts } from '../operation/parts.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import { CHURN_ENTRIES_MAX, CHURN_WINDOW_MS, KeyChurn } from './key-churn.ts'

function churnAt() {
  const clock = { at: 0, now: () => clock.at, after: () => () => {} }
  const churn = new KeyChurn(clock)
  const seen = (key: string, other: { route?: string; scope?: string; fingerprint?: string } = {}) =>
    churn.seen({
      route: other.route ?? 'charge',
      scope: other.scope ?? 'anna',
      key,
      claim: { fingerprint: other.fingerprint ?? 'f' },
    })?.code ?? null
  return { clock, churn, seen }
}

it('three keys for equal requests are a churn, three tries with one key are not', () => {
  const { seen } = churnAt()
  expect([seen('a'), seen('a'), seen('a'), seen('b'), seen('c')]).toEqual([null, null, null, null, 'ONCE_KEY_CHURN'])
})

it('another route, scope or fingerprint is another request', () => {
  const { seen } = churnAt()
  const others = [{ route: 'refund' }, { scope: 'bert' }, { fingerprint: 'g' }, { route: 'charge\nanna', scope: '' }]
  let key = 0
  for (const other of [{}, ...others]) for (const _ of [1, 2]) expect(seen(String(++key), other)).toBe(null)
})

it('keys that are ten seconds apart are none', () => {
  const { clock, seen } = churnAt()
  seen('a')
  clock.at = CHURN_WINDOW_MS
  expect(seen('b')).toBe(null)
  clock.at += 1
  expect(seen('c')).toBe(null)
  clock.at = 2 * CHURN_WINDOW_MS
  expect(seen('d')).toBe('ONCE_KEY_CHURN')
})

it('remembers a bounded number of requests, and forgets the one seen longest ago', () => {
  const { churn, seen } = churnAt()
  seen('a', { scope: 'first' })
  seen('a', { scope: 'second' })
  seen('b', { scope: 'second' })
  for (let i = 2; i < CHURN_ENTRIES_MAX; i++) seen('a', { scope: String(i) })
  seen('b', { scope: 'first' })
  seen('a', { scope: 'one more' })
  expect(churn.size).toBe(CHURN_ENTRIES_MAX)
  expect(seen('c', { scope: 'second' })).toBe(null)
  expect(seen('c', { scope: 'first' })).toBe('ONCE_KEY_CHURN')
  churn.clear()
  expect(churn.size).toBe(0)
})

it.each(['warn', 'throw'] as const)('is a warning, once per route, in mode %s', async (guard) => {
  const heard = witness()
  const store = sqliteStore({ file: ':memory:' })
  const once = createOnce({ namespace: 'shop', store, guard, sweep: false, observe: heard.observe }, systemParts)
  await once.migrate()
  await store.transaction((tx) => tx.query('create table charges (amount int)'))
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
    await once.run({ scope: 'anna', key, input: { amount: 7 } }, async function charge({ tx }) {
      await tx.query('insert into charges values (7)')
    })
  }
  const line = 'charge got 3 equal requests with 3 keys within 10 s: is the client making a new key per retry?'
  expect(await heard.warnings()).toEqual([{ code: 'ONCE_KEY_CHURN', line }])
  heard.stop()
  await once.close()
})
