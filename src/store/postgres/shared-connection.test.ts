import { describe, expect, it } from 'vitest'
import { WRITER_QUEUE_MAX, WRITER_WAIT_MS_MAX } from '../../limits.ts'
import type { Clock } from '../../platform/clock.ts'
import { SharedConnection } from './shared-connection.ts'

describe('Lane', () => {
  it('lets one in at a time, in the order they came', async () => {
    const lane = new SharedConnection()
    const seen: number[] = []
    await Promise.all(
      [1, 2, 3].map((turn) =>
        lane.hold(async () => {
          seen.push(turn)
          await Promise.resolve()
          seen.push(-turn)
        }),
      ),
    )
    expect(seen).toEqual([1, -1, 2, -2, 3, -3])
  })

  it('given back twice, it is not taken from who has it since', async () => {
    const lane = new SharedConnection(stopped().clock)
    const release = await lane.acquire()
    const second = lane.acquire()
    let inside = 0
    const third = lane.acquire().then((give) => {
      inside++
      return give
    })
    release()
    release()
    const giveSecond = await second
    await new Promise((resolve) => setImmediate(resolve))
    expect(inside).toBe(0)
    giveSecond()
    const giveThird = await third
    giveSecond()
    const fourth = lane.acquire().then(() => inside++)
    await new Promise((resolve) => setImmediate(resolve))
    expect(inside).toBe(1)
    giveThird()
    await fourth
  })

  it('refuses who comes when the queue is full', async () => {
    const lane = new SharedConnection(stopped().clock)
    const release = await lane.acquire()
    const waiting = Array.from({ length: WRITER_QUEUE_MAX }, () => lane.acquire())
    await expect(lane.acquire()).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL' })
    release()
    for (const turn of waiting) (await turn)()
  })

  it('refuses who waited too long, and forgets them', async () => {
    const { clock, timers } = stopped()
    const lane = new SharedConnection(clock)
    const release = await lane.acquire()
    const late = lane.acquire()
    expect(timers.map(({ ms }) => ms)).toEqual([WRITER_WAIT_MS_MAX])
    timers[0]?.callback()
    await expect(late).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL' })
    release()
    release()
    const next = await lane.acquire()
    const after = lane.acquire()
    next()
    await after
  })
})

function stopped(): { clock: Clock; timers: { ms: number; callback: () => void }[] } {
  const timers: { ms: number; callback: () => void }[] = []
  return {
    timers,
    clock: {
      now: () => 0,
      after(ms, callback) {
        timers.push({ ms, callback })
        return () => {}
      },
    },
  }
}
