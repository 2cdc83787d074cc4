import { describe, expect, it } from 'vitest'
import { CACHE_FAILURES_MAX, CACHE_LOOK_MS_MAX, CACHE_QUIET_MS, CACHE_REST_MS } from './limits.ts'
import { Breaker } from './breaker.ts'

interface Timer {
  readonly at: number
  readonly run: () => void
}

function make(): {
  breaker: Breaker
  opened: unknown[]
  pass(ms: number): Promise<void>
} {
  let now = 0
  let timers: Timer[] = []
  const opened: unknown[] = []
  const clock = {
    now: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => void (timers = timers.filter((of) => of !== timer))
    },
  }
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return {
    breaker: new Breaker(clock, (error) => opened.push(error)),
    opened,
    async pass(ms) {
      for (const end = now + ms; now < end; now++) {
        const due = timers.filter(({ at }) => at <= now)
        timers = timers.filter(({ at }) => at > now)
        for (const { run } of due) run()
        await settle()
      }
    },
  }
}

const never = (): Promise<string> => new Promise(() => {})

describe('the breaker of a cache', () => {
  it('gives a request up after a few milliseconds, and after a few of them does not ask', async () => {
    const { breaker, opened, pass } = make()
    for (let n = 0; n < CACHE_FAILURES_MAX; n++) {
      const asked = breaker.run(never)
      await pass(2 * CACHE_QUIET_MS + 1)
      expect(await asked).toBeUndefined()
    }
    expect(opened).toHaveLength(1)
    let asked = 0
    const ask = (): Promise<string> => {
      asked += 1
      return never()
    }
    for (let n = 0; n < 5; n++) expect(await breaker.run(ask)).toBeUndefined()
    expect(asked).toBe(0)
    expect(breaker.isResting).toBe(true)
    await pass(CACHE_REST_MS + 1)
    expect(breaker.isResting).toBe(false)
    for (let n = 0; n < 5; n++) expect(await breaker.run(ask)).toBeUndefined()
    expect(asked).toBe(1)
  })

  it('closes when a request that nobody waits for is answered', async () => {
    const { breaker, pass } = make()
    for (let n = 0; n < CACHE_FAILURES_MAX; n++)
      expect(await breaker.run(() => Promise.reject(new Error('down')))).toBe(undefined)
    expect(breaker.isClosed).toBe(false)
    await pass(CACHE_REST_MS + 1)
    expect(await breaker.run(() => Promise.resolve('late'))).toBeUndefined()
    await pass(1)
    expect(breaker.isClosed).toBe(true)
    expect(await breaker.run(() => Promise.resolve('back'))).toBe('back')
  })

  it('waits longer for a server that replies to others', async () => {
    const { breaker, pass } = make()
    let isOver = false
    const slow = breaker.run(never).then(() => (isOver = true))
    for (let ms = 0; ms < CACHE_LOOK_MS_MAX - 4; ms += 2) {
      await breaker.run(() => Promise.resolve(''))
      await pass(2)
    }
    expect(isOver).toBe(false)
    await pass(CACHE_LOOK_MS_MAX)
    expect(await slow).toBe(true)
    expect(breaker.isClosed).toBe(true)
  })
})
