import { describe, expect, test } from 'vitest'
import { untilRung, Waiting } from './waiting.ts'

const LONG_MS = 60_000

describe('waiting', () => {
  test('ends at once where nobody waits any more, also if that was told before', async () => {
    const told = AbortSignal.abort()
    const at = performance.now()
    await untilRung(LONG_MS, [new AbortController().signal, told], () => {})
    expect(await new Waiting<number>(told).take(1, LONG_MS, new AbortController().signal)).toEqual([])
    expect(performance.now() - at).toBeLessThan(1_000)
  })

  test('ends when somebody aborts, rings, pushes or ends it', async () => {
    const stop = new AbortController()
    const waiting = new Waiting<number>(stop.signal)
    const { signal } = new AbortController()
    const take = (): Promise<number[]> => waiting.take(2, LONG_MS, signal)
    const rung = take()
    waiting.ring()
    expect(await rung).toEqual([])
    const pushed = take()
    waiting.push(1, 2, 3)
    expect(await pushed).toEqual([1, 2])
    expect(await take()).toEqual([3])
    const aborted = take()
    stop.abort()
    expect(await aborted).toEqual([])
    expect(await take()).toEqual([])
  })
})
