import { describe, expect, test } from 'vitest'
import { effectivelyOnce, inProcessSink } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { WakeSignal } from './wake-signal.ts'

describe('a wake', () => {
  const LONG_MS = 60_000

  test('wakes whoever sleeps; only a ring is news', async () => {
    const wake = new WakeSignal(systemClock)
    const nudged = wake.wait(LONG_MS)
    wake.nudge()
    expect(await nudged).toBe(false)
    const rung = wake.wait(LONG_MS)
    wake.signal()
    expect(await rung).toBe(true)
  })

  test('is heard by the next sleeper too, once, and a nudge does not take a ring back', async () => {
    const wake = new WakeSignal(systemClock)
    wake.signal()
    wake.nudge()
    expect(await wake.wait(LONG_MS)).toBe(true)
    wake.nudge()
    expect(await wake.wait(LONG_MS)).toBe(false)
    const begun = performance.now()
    expect(await wake.wait(30)).toBe(false)
    expect(performance.now() - begun).toBeGreaterThan(20)
  })

  test('ends a pause only with the news that the pause waits for, and keeps all other news', async () => {
    const wake = new WakeSignal(systemClock)
    let stopping = false
    const begun = performance.now()
    setTimeout(() => wake.signal(), 5)
    await wake.pause(50, () => stopping)
    expect(performance.now() - begun).toBeGreaterThan(40)
    expect(await wake.wait(LONG_MS)).toBe(true)
    setTimeout(() => {
      stopping = true
      wake.signal()
    }, 5)
    await wake.pause(LONG_MS, () => stopping)
    expect(await wake.wait(LONG_MS)).toBe(true)
  })

  test('keeps the process alive while a relay waits for it', async () => {
    const held: (boolean | undefined)[] = []
    const after: typeof systemClock.after = (ms, callback, isHeld) => {
      held.push(isHeld)
      return systemClock.after(ms, callback, isHeld)
    }
    await new WakeSignal({ ...systemClock, after }).wait(1)
    expect(held).toEqual([true])
  })

  test('that a heartbeat rings does not make an idle relay look more often', async () => {
    const store = memoryStore()
    const outbox = store.outbox
    let looks = 0
    const counting: Outbox = Object.create(outbox, {
      read: { value: (...args: Parameters<Outbox['read']>) => (looks++, outbox.read(...args)) },
    })
    const once = effectivelyOnce({ namespace: 'wake', store: { ...store, outbox: counting }, guard: 'off' })
    const relay = await once.relay({ to: inProcessSink(() => {}), lease: '1s' }).start()
    // Quick looks at first, each after twice the time.
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    looks = 0
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    await relay.stop()
    await once.close()
    // Six heartbeats, each with one look, and two or three of its own.
    expect(looks).toBeGreaterThan(2)
    expect(looks).toBeLessThan(12)
  })
})
