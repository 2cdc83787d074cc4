import { expect, it } from 'vitest'
import { witness } from '../../test/support/guard-witness.ts'
import { TOLD_MAX, Warner } from './warn.ts'

const finding = (place: string, route = 'charge') => ({ code: 'ONCE_TX_BYPASSED', route, place, line: place }) as const

it('tells once per code, route and place, whether it warned or refused', async () => {
  const heard = witness()
  const warner = new Warner(heard.observe)
  warner.warn(finding('a'))
  warner.warn(finding('a'))
  warner.warn(finding('a', 'refund'))
  expect(warner.refuse(finding('b'))).toMatchObject({ code: 'ONCE_TX_BYPASSED', message: 'ONCE_TX_BYPASSED b' })
  expect(warner.refuse(finding('b'))).toMatchObject({ code: 'ONCE_TX_BYPASSED' })
  warner.warn(finding('b'))
  expect((await heard.warnings()).map(({ line }) => line)).toEqual(['a', 'a'])
  expect(heard.signals.map(({ line }) => line)).toEqual(['a', 'a', 'b'])
  heard.stop()
})

it('remembers a bounded number', () => {
  const heard = witness()
  const warner = new Warner(heard.observe)
  for (let i = 0; i < TOLD_MAX + 10; i++) warner.refuse(finding(String(i)))
  expect(warner.told).toBe(TOLD_MAX)
  warner.refuse(finding(String(TOLD_MAX)))
  expect(heard.signals).toHaveLength(TOLD_MAX + 10)
  warner.refuse(finding('0'))
  expect(heard.signals).toHaveLength(TOLD_MAX + 11)
  heard.stop()
})

it('an observer that does it again is told once', () => {
  let told = 0
  const warner = new Warner(() => {
    told++
    warner.refuse(finding('a'))
  })
  warner.refuse(finding('a'))
  expect(told).toBe(1)
})
