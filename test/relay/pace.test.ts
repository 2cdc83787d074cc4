import { afterEach, beforeEach, expect, it } from 'vitest'
import { inProcessSink, type OutgoingEvent, type Relay } from '../../src/index.ts'
import type { Sink } from '../../src/sink/sink.ts'
import { describeStores, hook, never, serviceOn, stepOf, wait, type Service } from './service.ts'
import { judge, until, type Step } from './world.ts'

const CALM = { lost: 0, inversions: 0, duplicates: 0 }

describeStores('the pace of a relay', (place) => {
  let service: Service
  beforeEach(() => void (service = serviceOn(place)))
  afterEach(() => service.end())

  const many = (count: number, aggregates: number): string[] =>
    Array.from({ length: count }, (_, i) => `a${i % aggregates}`)

  /** How long a plain loop takes for the same. */
  async function plainly(count: number, concurrency: number, ms: number): Promise<number> {
    const begun = performance.now()
    let next = 0
    const worker = async (): Promise<void> => {
      while (next++ < count) await wait(ms)
    }
    await Promise.all(Array.from({ length: concurrency }, worker))
    return performance.now() - begun
  }

  it.each([
    [100, 1, 25, 'in process'],
    [600, 1, 1, 'in process'],
    [240, 16, 300, 'a webhook'],
  ])('%i events, %i at a time, %i ms each, %s: each is sent once, as fast as by a loop', async (...of) => {
    const [count, concurrency, ms, kind] = of
    const seen: Step[] = []
    const take = async (step: Step): Promise<number> => {
      await wait(ms)
      seen.push(step)
      return 200
    }
    const to = kind === 'in process' ? inProcessSink((sent) => take(stepOf(sent)), { name: 'slow' }) : hook(take)
    await service.make(many(count, 60))
    const begun = performance.now()
    // Half of this lease is less than all of them take.
    await service.relay({ to, lease: '2s' }).start()
    await until(() => seen.length >= count)
    const took = performance.now() - begun
    const plain = await plainly(count, concurrency, ms)
    expect(judge(seen, service.last)).toEqual(CALM)
    // A good part of a second for the start, on a machine that is busy.
    expect(took).toBeLessThan(plain / 0.9 + 700)
  })

  it('records what a sink took while the rest of the same call hangs', async () => {
    const seen: Step[] = []
    const hung: Step[] = []
    const slow: Sink = {
      ...inProcessSink(() => {}, { name: 'stuck' }),
      async send(sent, { signal, told }) {
        for (const [index, event] of sent.entries()) {
          const step = stepOf(event)
          if (step.aggregate === 'a7' && hung.length < 2) {
            hung.push(step)
            await never(signal)
          }
          seen.push(step)
          told?.(index, { kind: 'sent' })
        }
        return sent.map(() => ({ kind: 'sent' }))
      },
    }
    await service.make(many(60, 20))
    await service.relay({ to: slow, lease: '1s' }).start()
    await until(() => hung.length > 0 && seen.length >= 60, 25_000)
    expect(judge(seen, service.last)).toEqual(CALM)
  })

  /** A relay of 200 events, 50 ms each, that has sent some of them. */
  async function startSlowly(name: string, sent: number): Promise<{ begun: Step[]; seen: Step[]; relay: Relay }> {
    const begun: Step[] = []
    const seen: Step[] = []
    const take = async (event: OutgoingEvent): Promise<void> => {
      begun.push(stepOf(event))
      await wait(50)
      seen.push(stepOf(event))
    }
    await service.make(many(200, 10))
    const relay = await service.relay({ to: inProcessSink(take, { name }) }).start()
    await until(() => seen.length >= sent)
    return { begun, seen, relay }
  }

  it('a stop hands over nothing new, and what was sent is recorded', async () => {
    const { begun, seen, relay } = await startSlowly('slow', 20)
    const stoppedAt = performance.now()
    await relay.stop({ within: '500ms' })
    expect(performance.now() - stoppedAt).toBeLessThan(900)
    const sent = seen.length
    await wait(100)
    // One was under way when the time was over.
    expect(begun.length).toBeLessThanOrEqual(sent + 1)
    await until(() => seen.length === begun.length)
    const left: Step[] = []
    const drained = await service
      .relay({ to: inProcessSink((of) => void left.push(stepOf(of)), { name: 'slow' }) })
      .drain()
    expect(drained).toBeGreaterThanOrEqual(200 - seen.length)
    expect(drained).toBeLessThanOrEqual(200 - sent)
    expect(judge([...seen, ...left], service.last)).toMatchObject({ lost: 0, inversions: 0 })
  })

  it('a stop waits for what is under way, and for nothing else', async () => {
    const { begun, seen, relay } = await startSlowly('stopped', 30)
    const before = begun.length
    await relay.stop()
    expect(begun.length).toBe(before)
    expect(seen.length).toBe(before)
    const rest = inProcessSink((of) => void seen.push(stepOf(of)), { name: 'stopped' })
    expect(await service.relay({ to: rest }).drain()).toBe(200 - before)
    expect(judge(seen, service.last)).toEqual(CALM)
  })

  it('a stop ends in time, whatever hangs', async () => {
    const seen: Step[] = []
    const answer = async (step: Step, signal: AbortSignal): Promise<number> => {
      if (step.n === 2) return never(signal)
      seen.push(step)
      return 200
    }
    await service.make(many(40, 20))
    const relay = await service.relay({ to: hook(answer, { timeout: '100s' }) }).start()
    await until(() => seen.length === 20)
    const begun = performance.now()
    await relay.stop({ within: '1s' })
    expect(performance.now() - begun).toBeLessThan(1_500)
    const left: Step[] = []
    const rest = hook(async (step) => {
      left.push(step)
      return 200
    })
    expect(await service.relay({ to: rest }).drain()).toBe(20)
    expect(judge([...seen, ...left], service.last)).toEqual(CALM)
  })

  it('a busy aggregate holds up nobody, not even in its own shard', async () => {
    const cold: number[] = []
    let hot = 0
    const answer = async ({ aggregate }: Step): Promise<number> => {
      await wait(40)
      if (aggregate === 'hot') hot++
      else cold.push(performance.now())
      return 200
    }
    await service.make(Array.from({ length: 400 }, () => 'hot'))
    await service.make(many(150, 150))
    const begun = performance.now()
    await service.relay({ to: hook(answer) }).start()
    await until(() => cold.length === 150)
    expect(performance.now() - begun).toBeLessThan(3_000)
    const [before, hotBefore] = [cold.length, hot]
    await service.make(many(20, 20))
    const again = performance.now()
    await until(() => cold.length === before + 20)
    expect(performance.now() - again).toBeLessThan(2_000)
    await until(() => hot > hotBefore + 10)
  })

  it.each([0, -1])('within: %s is refused or ends at once', async (within) => {
    const relay = await service.relay({ to: inProcessSink(() => {}) }).start()
    const stopped = relay.stop({ within: within === 0 ? '1ms' : (within as never) })
    if (within === 0) await stopped
    else await expect(stopped).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
  })
})
