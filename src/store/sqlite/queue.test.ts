import { describe, expect, it } from 'vitest'
import { systemClock } from '../../platform/clock.ts'
import { EventLoopTurn } from './event-loop-turn.ts'
import { Queue } from './queue.ts'

function makeQueue(limit = 3): Queue {
  return new Queue(systemClock, new EventLoopTurn(systemClock), limit)
}

describe('the queue', () => {
  it('lets one in at a time, first come first served, urgent ones first', async () => {
    const queue = makeQueue()
    const order: string[] = []
    let inside = 0
    const visit = async (name: string, urgent = false) => {
      await queue.enter({ waitMs: 5_000, urgent })
      inside++
      expect(inside).toBe(1)
      order.push(name)
      await new Promise((resolve) => setTimeout(resolve, 2))
      inside--
      queue.leave()
    }
    await Promise.all([visit('a'), visit('b'), visit('c'), visit('heartbeat', true)])
    expect(order).toEqual(['a', 'heartbeat', 'b', 'c'])
  })

  it('refuses who would be one too many, but not an urgent one', async () => {
    const queue = makeQueue(1)
    await queue.enter({ waitMs: 5_000 })
    const second = queue.enter({ waitMs: 5_000 })
    await expect(queue.enter({ waitMs: 5_000 })).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL', status: 503 })
    const urgent = queue.enter({ waitMs: 5_000, urgent: true })
    queue.leave()
    await urgent
    queue.leave()
    await second
  })

  it('refuses who waited too long, and goes on with the next', async () => {
    const queue = makeQueue()
    await queue.enter({ waitMs: 5_000 })
    const late = queue.enter({ waitMs: 20 })
    const patient = queue.enter({ waitMs: 5_000 })
    await expect(late).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL' })
    queue.leave()
    await patient
  })

  it('closes when the last one has left, and takes nobody any more', async () => {
    const queue = makeQueue()
    await queue.enter({ waitMs: 5_000 })
    const waiting = queue.enter({ waitMs: 5_000 })
    let closed = false
    const closing = queue.close().then(() => {
      closed = true
    })
    await expect(waiting).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    expect(closed).toBe(false)
    queue.leave()
    await closing
    await expect(queue.enter({ waitMs: 5_000 })).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
  })

  it('lets the event loop turn, however many come and go without waiting for anything', async () => {
    const queue = makeQueue(1_000)
    let ticks = 0
    const timer = setInterval(() => ticks++, 1)
    const until = performance.now() + 200
    const visitor = async () => {
      while (performance.now() < until) {
        await queue.enter({ waitMs: 5_000 })
        queue.leave()
      }
    }
    await Promise.all(Array.from({ length: 10 }, visitor))
    clearInterval(timer)
    expect(ticks).toBeGreaterThan(2)
  })
})
