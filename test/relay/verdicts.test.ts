import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Sink, SinkVerdict } from '../../src/index.ts'
import { describeStores, serviceOn, stepOf, wait, type Service } from './service.ts'
import { judge, until, type Step } from './world.ts'

const SENT: SinkVerdict = { kind: 'sent' }

function sinkOf(send: (...given: Parameters<Sink['send']>) => unknown, parts: Partial<Sink> = {}): Sink {
  return { name: 'own', proves: 'accepted', dedupes: false, orders: false, ...parts, send } as Sink
}

describeStores('a sink of somebody else', (place) => {
  let service: Service
  let strays: unknown[]
  const stray = (error: unknown): void => void strays.push(error)
  beforeEach(() => {
    service = serviceOn(place)
    strays = []
    process.on('unhandledRejection', stray)
  })
  afterEach(async () => {
    await service.end()
    process.off('unhandledRejection', stray)
    if (strays.length > 0) throw new AggregateError(strays, 'nobody caught these')
  })

  it.each([true, false])('a verdict that is told and answered counts once, orders: %s', async (orders) => {
    const seen: Step[] = []
    let refusals = 0
    const to = sinkOf(
      async (sent, { told }) => {
        const verdicts: SinkVerdict[] = []
        let broken = false
        for (const [index, one] of sent.entries()) {
          await wait(2)
          const refused = stepOf(one).aggregate === 'bad' && (broken || refusals < 6)
          // Its successors would overtake it.
          if (refused && !broken) refusals++
          if (refused) broken = true
          else seen.push(stepOf(one))
          const error = new Error('503')
          const verdict = refused ? { kind: 'failed' as const, error, retryable: true, perhapsDown: true } : SENT
          told?.(index, verdict)
          verdicts.push(verdict)
        }
        return verdicts
      },
      { orders, concurrency: 2 },
    )
    await service.make(['bad', 'bad', 'a', 'b', 'c', 'd', 'a', 'b', 'c', 'd'])
    await service.relay({ to, attempts: 1_000 }).start()
    for (let i = 0; i < 20; i++) {
      await service.make(['a', 'bad'])
      await wait(50)
    }
    await until(() => judge(seen, service.last).lost === 0, 20_000)
    expect(judge(seen, service.last)).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
  })

  it.each([undefined, null, 'sent', 1, {}])('one that answers with %s is out of order', async (answer) => {
    const seen: Step[] = []
    let calls = 0
    const to = sinkOf(async (sent) => {
      if (++calls <= 4) return answer
      seen.push(...sent.map(stepOf))
      return sent.map(() => SENT)
    })
    await service.make(['a', 'b', 'a'])
    await service.relay({ to, attempts: 2 }).start()
    await until(() => judge(seen, service.last).lost === 0, 15_000)
    expect(judge(seen, service.last).inversions).toBe(0)
    expect(service.signals.find(({ kind }) => kind === 'troubled')).toMatchObject({
      error: { message: expect.stringContaining('verdict') },
    })
  })

  it.each([
    undefined,
    'a text',
    Object.create(null),
    {
      toString() {
        throw new Error('not readable')
      },
    },
    Object.defineProperty(new Error('hidden'), 'message', {
      get() {
        throw new Error('not readable')
      },
    }),
  ])('one that rejects with anything is tried again', async (thrown) => {
    const seen: Step[] = []
    let calls = 0
    const to = sinkOf((sent) => {
      if (++calls <= 4) throw thrown
      seen.push(...sent.map(stepOf))
      return Promise.resolve(sent.map(() => SENT))
    })
    await service.make(['a', 'b', 'a'])
    await service.relay({ to, attempts: 2 }).start()
    await until(() => judge(seen, service.last).lost === 0, 15_000)
    expect(judge(seen, service.last).inversions).toBe(0)
    expect(service.signals.some(({ kind }) => kind === 'troubled')).toBe(true)
  })

  it('a verdict that is none is a failure of its event', async () => {
    const seen: Step[] = []
    const to = sinkOf(
      async (sent, { told }) => {
        const step = stepOf(sent[0] as never)
        if (step.aggregate === 'told') told?.(0, undefined as never)
        if (step.aggregate !== 'good') return [null]
        seen.push(step)
        return [SENT]
      },
      { batch: 1 },
    )
    await service.make(['told', 'null', 'good'])
    await service.relay({ to, attempts: 2 }).start()
    await until(() => seen.length === 1)
    const parked = (): number => service.signals.filter(({ kind }) => kind === 'parked').length
    await until(() => parked() === 2)
    expect(seen).toHaveLength(1)
  })

  it('a verdict that cannot be read is a failure of its event', async () => {
    const seen: Step[] = []
    const broken = (): never => {
      throw new Error('it cannot be read')
    }
    const unreadable = [
      Object.defineProperty({}, 'kind', { get: broken }),
      Object.defineProperty({ kind: 'failed', retryable: true }, 'error', { get: broken }),
    ]
    const to = sinkOf(
      async (sent) => {
        const step = stepOf(sent[0] as never)
        const verdict = unreadable[['kind', 'error'].indexOf(step.aggregate)]
        if (verdict) return [verdict as never]
        seen.push(step)
        return [SENT]
      },
      { batch: 1 },
    )
    await service.make(['kind', 'error', 'good'])
    await service.relay({ to, attempts: 2 }).start()
    const parked = (): number => service.signals.filter(({ kind }) => kind === 'parked').length
    await until(() => parked() === 2 && seen.length === 1, 4_000)
    expect(parked()).toBe(2)
    expect(seen).toHaveLength(1)
  })
})
