import { afterEach, expect, it, vi } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../index.ts'
import { createOnce } from '../once/once.ts'
import { systemParts } from '../operation/parts.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { standardWebhooksSource } from '../source/standard-webhooks.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'
import type { PushedConsumer } from './types.ts'

const events = { 'step.made': event<{ id: string }>(({ id }) => id) }
const signals: Signal[] = []
const open = () => {
  const observe = (signal: Signal): void => void signals.push(signal)
  return effectivelyOnce({ namespace: 'test', store: memoryStore(), events, guard: 'off', sweep: false, observe })
}
let once: ReturnType<typeof open>

afterEach(async () => {
  signals.length = 0
  await once.close()
})

const nothingFor = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function published(ids: readonly string[]): Promise<void> {
  await once.run({ scope: 's', key: `of ${ids.join()}`, input: null }, async ({ publish }) => {
    for (const id of ids) await publish('step.made', { id })
  })
}

it('a paused consumer begins nothing, lets others have what it did not begin, and goes on', async () => {
  once = open()
  const broker = memoryBroker()
  const ran: string[] = []
  let release = (): void => {}
  const blocked = new Promise<void>((resolve) => (release = resolve))
  const consumer = once.consumer(
    'reader',
    { from: broker.source, batch: 1, concurrency: 1 },
    {
      'step.made': async ({ id }) => {
        ran.push(id)
        await blocked
      },
    },
  )
  await consumer.start()
  broker.publish({ id: 'a', aggregate: 'a' }, { id: 'b', aggregate: 'b' })
  await vi.waitFor(() => expect(ran).toEqual(['a']))
  consumer.pause()
  consumer.pause()
  expect(consumer.paused).toBe(true)
  // What runs ends; what waited is somebody else's to run.
  release()
  await vi.waitFor(() => expect(broker.left).toBe(1))
  await vi.waitFor(() => expect(signals.some(({ kind }) => kind === 'returned')).toBe(true))
  const other = once.consumer('other', { from: broker.source }, { 'step.made': async () => {} })
  void other
  broker.publish({ id: 'c', aggregate: 'c' })
  await nothingFor(200)
  expect(ran).toEqual(['a'])
  expect(await consumer.drain()).toBe(0)
  consumer.resume()
  await vi.waitFor(() => expect(ran.toSorted()).toEqual(['a', 'b', 'c']))
  const of = { task: 'consumer', name: 'reader' }
  expect(signals.filter(({ kind }) => kind === 'paused' || kind === 'resumed')).toEqual([
    { kind: 'paused', ...of },
    { kind: 'resumed', ...of },
  ])
})

it('a consumer that keeps order keeps what it has while it is paused, also through a stop and a start', async () => {
  once = open()
  const ran: string[] = []
  const consumer = once.consumer(
    'reader',
    { from: once.outbox },
    { 'step.made': async ({ data }) => void ran.push(data.id) },
  )
  consumer.pause()
  await published(['a', 'b'])
  expect(await consumer.drain()).toBe(0)
  await consumer.start()
  await nothingFor(100)
  await consumer.stop()
  expect(ran).toEqual([])
  await consumer.start()
  consumer.resume()
  await vi.waitFor(() => expect(ran).toEqual(['a', 'b']))
})

it('a paused consumer takes up no redrive', async () => {
  once = open()
  let broken = true
  const handler = async (): Promise<void> => {
    if (broken) throw new Error('not yet')
  }
  const consumer = once.consumer('reader', { from: once.outbox, attempts: 1 }, { 'step.made': handler })
  await published(['a'])
  await consumer.start()
  await vi.waitFor(async () => expect(await once.deadLetters.list({ consumer: 'reader' })).toHaveLength(1))
  consumer.pause()
  broken = false
  const { id } = await once.redrive.run({ consumer: 'reader' }, { by: 'test', why: 'test' })
  const state = async (): Promise<string | undefined> => (await once.redrive.status(id))?.state
  await nothingFor(1_800)
  expect(await state()).toBe('running')
  consumer.resume()
  await vi.waitFor(async () => expect(await state()).toBe('done'), { timeout: 5_000 })
})

it('a webhook of a paused consumer is told to come again', async () => {
  once = open()
  const from = standardWebhooksSource({ secret: 'a secret of some length', events })
  const consumer = once.consumer('hook', { from, rate: 1 }, { 'step.made': async () => {} }) as PushedConsumer
  const { webhookSink } = await import('../sink/webhook.ts')
  const answers: number[] = []
  const sink = webhookSink({
    url: 'http://here/',
    secret: 'a secret of some length',
    async fetch(_url, { headers, body }) {
      const request = { method: 'POST', headers: headers as Record<string, string>, body: Buffer.from(body as string) }
      const answer = await consumer.receive({ ...request, now: Date.now() })
      answers.push(answer.status)
      return new Response(null, { status: answer.status })
    },
  })
  await published(['a'])
  consumer.pause()
  const relay = once.relay({ to: sink })
  await expect(relay.drain()).rejects.toThrow(/503/)
  consumer.resume()
  answers.length = 0
  // One at once; the second must wait a second.
  await published(['b'])
  await relay.start()
  await vi.waitFor(() => expect(answers.filter((status) => status === 200)).toHaveLength(2), { timeout: 5_000 })
  expect(answers).toContain(503)
})

it.each([
  ['one by one', { batch: 1 }],
  ['in batches', {}],
] as const)('runs no more than its rate, %s', async (_, options) => {
  once = open()
  const ran: string[] = []
  const handlers = { 'step.made': async ({ data }: { data: { id: string } }) => void ran.push(data.id) }
  const consumer = once.consumer('reader', { from: once.outbox, rate: 40, ...options }, handlers)
  await published(Array.from({ length: 25 }, (__, i) => `e${i}`))
  const before = performance.now()
  expect(await consumer.drain()).toBe(25)
  expect(performance.now() - before).toBeGreaterThan(500)
  expect(ran).toHaveLength(25)
  for (const rate of [0, -1, '5', 1e9]) {
    expect(() => once.consumer('bad', { from: once.outbox, rate: rate as never }, handlers as never)).toThrow(/rate/)
  }
})

it('drains what its rate holds back, also when its timer is late and a look at the clock takes long', async () => {
  let looksMs = 0
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now() + (looksMs += 3),
    after: (ms, callback, held) => systemClock.after(ms + 40, callback, held),
  }
  const settings = { namespace: 'test', store: memoryStore(), events, guard: 'off', sweep: false } as const
  once = createOnce(settings, { ...systemParts, clock })
  const consumer = once.consumer('reader', { from: once.outbox, rate: 10, batch: 1 }, { 'step.made': async () => {} })
  await published(Array.from({ length: 25 }, (_, i) => `e${i}`))
  expect(await consumer.drain()).toBe(25)
})

it('a paused consumer sleeps, also when a message that failed is due', async () => {
  let timers = 0
  const clock: Clock = {
    ...systemClock,
    after(ms, callback, held) {
      if (ms <= 1) timers += 1
      return systemClock.after(ms, callback, held)
    },
  }
  // The next attempt comes after 99 ms.
  const random = { ...systemParts.random, next: () => 0.99 }
  const settings = { namespace: 'test', store: memoryStore(), events, guard: 'off', sweep: false } as const
  once = createOnce(settings, { ...systemParts, clock, random })
  let failures = 0
  let failed = (): void => {}
  const first = new Promise<void>((resolve) => (failed = resolve))
  const consumer = once.consumer(
    'reader',
    { from: once.outbox },
    {
      'step.made': async () => {
        failed()
        if (++failures === 1) throw new Error('not yet')
      },
    },
  )
  await consumer.start()
  await published(['a'])
  await first
  await nothingFor(30)
  consumer.pause()
  await nothingFor(200)
  timers = 0
  await nothingFor(200)
  expect(timers).toBeLessThan(10)
  consumer.resume()
  await vi.waitFor(() => expect(failures).toBe(2))
})
