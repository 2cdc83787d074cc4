import { expect, it } from 'vitest'
import { systemClock } from '../platform/clock.ts'
import { LiveStream } from './live-streams.ts'

it('a wait that is over leaves nothing behind while the stream stands still', async () => {
  const live = new LiveStream('life', 0)
  for (let waits = 0; waits < 50; waits++) await live.changed(systemClock, 1)
  expect(live.waiting).toBe(0)
})

it('a chunk, an end and an abort end the wait', async () => {
  const live = new LiveStream('life', 0)
  const leaving = new AbortController()
  const waits = [live.changed(systemClock, 60_000), live.changed(systemClock, 60_000, leaving.signal)]
  expect(live.waiting).toBe(2)
  leaving.abort()
  await waits[1]
  expect(live.waiting).toBe(1)
  live.add({ start: 0, bytes: new Uint8Array([1]) })
  await waits[0]
  expect(live.waiting).toBe(0)
  const last = live.changed(systemClock, 60_000)
  live.close('ended')
  await last
  expect(live.waiting).toBe(0)
})
