import { afterEach, beforeEach, expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { describeStores, serviceOn, stepOf, wait, type Service } from './service.ts'
import { judge, until, type Step } from './world.ts'

const NONE = { lost: 0, inversions: 0, duplicates: 0 }

describeStores('a worker that is started', (place) => {
  let service: Service
  let seen: Step[]
  const slow = inProcessSink(async (sent) => {
    await wait(10)
    seen.push(stepOf(sent))
  })
  beforeEach(() => {
    service = serviceOn(place)
    seen = []
  })
  afterEach(() => service.end())

  it.each(['stop', 'drain'] as const)('beside its %s runs afterwards', async (ending) => {
    const relay = service.relay({ to: slow })
    await service.make(['a', 'b', 'c'])
    if (ending === 'stop') await relay.start()
    const ended = relay[ending]()
    await relay.start()
    await ended
    await service.make(['a', 'b'])
    await until(() => judge(seen, service.last).lost === 0, 5_000)
    expect(judge(seen, service.last)).toEqual(NONE)
  })

  it('beside its stop waits until the sink is closed', async () => {
    const log: string[] = []
    const to = {
      ...slow,
      open: async () => (log.push('open'), []),
      close: async () => {
        await wait(100)
        log.push('closed')
      },
    }
    const relay = service.relay({ to })
    await relay.start()
    const stopped = relay.stop()
    await relay.start()
    await stopped
    expect(log).toEqual(['open', 'closed', 'open'])
  })

  it('twice fails twice', async () => {
    const relay = service.relay({ to: { ...slow, open: () => Promise.reject(new Error('no server')) } })
    const outcomes = await Promise.allSettled([relay.start(), relay.start()])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })

  it('and paused has nothing to drain', async () => {
    const relay = service.relay({ to: slow })
    relay.pause()
    await service.make(['a'])
    expect(await relay.drain()).toBe(0)
    await relay.start()
    expect(await relay.drain()).toBe(0)
    relay.resume()
    await until(() => seen.length === 1)
  })

  it.each(['stop', 'drain'] as const)('as a consumer beside its %s runs afterwards', async (ending) => {
    const consumer = service.once.consumer(
      'steps',
      { from: service.once.outbox },
      {
        'step.made': async ({ data }: { data: Step }) => {
          await wait(10)
          seen.push(data)
        },
      },
    )
    await service.make(['a', 'b', 'c'])
    if (ending === 'stop') await consumer.start()
    const ended = consumer[ending]()
    await consumer.start()
    await ended
    await service.make(['a', 'b'])
    await until(() => judge(seen, service.last).lost === 0, 5_000)
    await consumer.stop()
    expect(judge(seen, service.last).lost).toBe(0)
  })

  it.each([0, -1, 1.5, Number.NaN, 'many'])('needs a sink that takes something: %s', (value) => {
    for (const option of ['batch', 'concurrency']) {
      const to = { ...slow, [option]: value }
      expect(() => service.relay({ to })).toThrow(expect.objectContaining({ code: 'ONCE_OPTION_INVALID' }))
    }
  })
})
