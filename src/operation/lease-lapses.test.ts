import { expect, it } from 'vitest'
import type { Clock } from '../platform/clock.ts'
import type { Leases } from '../store/store.ts'
import { LeaseHeartbeat } from './lease-heartbeat.ts'

const LEASE_MS = 300

/** Its timers fire as Node's do: in whole milliseconds from the last whole one, up to two milliseconds too early. */
function clockLikeNodes(begin: number): Clock & { passTo(time: number): Promise<void> } {
  let time = begin
  let timers: { readonly at: number; readonly callback: () => void }[] = []
  return {
    now: () => time,
    after(ms, callback) {
      const timer = { at: Math.floor(time) + Math.max(1, Math.trunc(ms)), callback }
      timers.push(timer)
      return () => void (timers = timers.filter((other) => other !== timer))
    },
    async passTo(end) {
      for (;;) {
        const next = timers.toSorted((a, b) => a.at - b.at)[0]
        if (!next || next.at > end) break
        timers = timers.filter((other) => other !== next)
        time = Math.max(time, next.at)
        next.callback()
        await new Promise((resolve) => setImmediate(resolve))
      }
      time = end
    },
  }
}

/** Beats are answered by nobody, or fail. */
function make(clock: Clock, heartbeat: () => Promise<readonly string[]>): { hold(id: string): void; told: string[] } {
  const beating = new LeaseHeartbeat({ heartbeat } as unknown as Leases, clock, () => {})
  const told: string[] = []
  const onLost = (): void => {}
  return {
    hold: (id) => void beating.hold({ id, token: '1', leaseMs: LEASE_MS, onLost, onLapsed: () => told.push(id) }),
    told,
  }
}

const never = (): Promise<readonly string[]> => new Promise(() => {})

it('tells of a lease that lapses while a beat has no answer, though a timer fires too early', async () => {
  const clock = clockLikeNodes(0.9)
  const { hold, told } = make(clock, never)
  hold('a')
  await clock.passTo(LEASE_MS + 3)
  expect(told).toEqual(['a'])
})

it('tells of each of several leases when it lapses', async () => {
  const clock = clockLikeNodes(0)
  const { hold, told } = make(clock, never)
  hold('a')
  await clock.passTo(50)
  hold('b')
  await clock.passTo(LEASE_MS + 2)
  expect(told).toEqual(['a'])
  await clock.passTo(LEASE_MS + 52)
  expect(told).toEqual(['a', 'b'])
})

it('tells of none that was renewed after a beat that failed', async () => {
  const clock = clockLikeNodes(0)
  let beats = 0
  const { hold, told } = make(clock, async () => {
    if (++beats === 1) throw new Error('unreachable')
    return ['a']
  })
  hold('a')
  await clock.passTo(5 * LEASE_MS)
  expect(told).toEqual([])
})
