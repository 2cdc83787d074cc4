import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { githubSource } from '../../src/entry/github.ts'
import { inProcessSink, type Consumer, type ConsumerOptions } from '../../src/index.ts'
import type { PushedConsumer } from '../../src/consumer/types.ts'
import { BY, openRedriveWorld, temporaryFile, type RedriveWorld } from '../redrive/world.ts'
import { until } from './world.ts'

const SECRET = 'a secret'

async function push(consumer: Consumer, id: string): Promise<number> {
  const body = JSON.stringify({ ref: 'main', after: id })
  const signature = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`
  const headers = { 'x-hub-signature-256': signature, 'x-github-delivery': id, 'x-github-event': 'push' }
  const request = { method: 'POST', headers, body: Buffer.from(body), now: Date.now() }
  return (await (consumer as PushedConsumer).receive(request)).status
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(['sqlite', 'memory'] as const)('a pushed consumer that was stopped, %s', (backend) => {
  let world: RedriveWorld
  let undo: (() => Promise<void>)[] = []
  let fails = false
  let gate: Promise<void> | undefined
  beforeEach(async () => {
    const { file, remove } = await temporaryFile()
    world = await openRedriveWorld(backend, file)
    undo = [remove, world.close]
    fails = false
    gate = undefined
  })
  afterEach(async () => {
    for (const step of undo.toReversed()) await step()
  })

  const hooks = (options: Partial<ConsumerOptions<unknown, undefined>> = {}): Consumer =>
    world.once.consumer(
      'hooks',
      { from: githubSource({ secret: SECRET }), attempts: 1, ...(options as object) },
      {
        push: async ({ id }, { tx }) => {
          await world.write(tx, id)
          await gate
          if (fails) throw new Error('not now')
        },
      },
    )
  const applied = async (): Promise<string[]> => [...(await world.applied()).keys()]

  it('answers 503, and works again when it is started again', async () => {
    const consumer = hooks()
    expect(await push(consumer, 'd1')).toBe(200)
    await consumer.stop()
    expect(await push(consumer, 'd2')).toBe(503)
    await consumer.stop()
    await consumer.start()
    expect(await push(consumer, 'd2')).toBe(200)
    expect(await applied()).toEqual(['d1', 'd2'])
  })

  it('takes up no redrive until it is started again', async () => {
    fails = true
    const consumer = await hooks().start()
    expect(await push(consumer, 'd1')).toBe(200)
    await consumer.stop()
    fails = false
    const { id } = await world.once.redrive.run({}, { ...BY, canary: 0 })
    await pause(2_500)
    expect(await world.once.redrive.status(id)).toMatchObject({ applied: 0, left: 1, working: false })
    expect(await applied()).toEqual([])
    await consumer.start()
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 1 })
  })

  it('ends what runs before it says that it stopped, and begins nothing more', async () => {
    let open: () => void = () => {}
    gate = new Promise((resolve) => (open = resolve))
    const consumer = await hooks({ concurrency: 1 }).start()
    const running = push(consumer, 'd1')
    const waiting = [push(consumer, 'd2'), push(consumer, 'd3')]
    await pause(100)
    let stopped = false
    const stopping = consumer.stop().then(() => (stopped = true))
    expect(await Promise.all(waiting)).toEqual([503, 503])
    expect(stopped).toBe(false)
    open()
    expect(await running).toBe(200)
    await stopping
    expect(await applied()).toEqual(['d1'])
  })

  it('begins whatever waits as soon as there is room, in the order it came', async () => {
    let open: () => void = () => {}
    gate = new Promise((resolve) => (open = resolve))
    const consumer = await hooks({ concurrency: 1 }).start()
    const pushed = ['d1', 'd2', 'd3'].map((id) => push(consumer, id))
    await pause(50)
    open()
    const woken = Promise.race([Promise.all(pushed), pause(5_000).then(() => 'never woken')])
    expect(await woken).toEqual([200, 200, 200])
    expect(await applied()).toEqual(['d1', 'd2', 'd3'])
    expect(await push(consumer, 'd4')).toBe(200)
  })

  it('begins nothing that came while it was starting', async () => {
    const consumer = hooks()
    const early = push(consumer, 'd1')
    await consumer.stop()
    const status = await early
    expect([status, await applied()]).toEqual(status === 503 ? [503, []] : [200, ['d1']])
    await pause(50)
    expect(await applied()).toHaveLength(status === 503 ? 0 : 1)
  })

  it('does not wait for a handler that hangs past its deadline', async () => {
    gate = new Promise(() => {})
    const consumer = await hooks({ deadline: '300ms' }).start()
    const hanging = push(consumer, 'd1')
    await pause(50)
    const at = performance.now()
    await consumer.stop()
    expect(performance.now() - at).toBeLessThan(3_000)
    expect(await hanging).toBe(200)
  })

  it('redrives nothing after it said that it stopped', async () => {
    fails = true
    const consumer = await hooks().start()
    for (let n = 0; n < 30; n++) expect(await push(consumer, `d${n}`)).toBe(200)
    fails = false
    const { id } = await world.once.redrive.run({}, { ...BY, canary: 0, rate: 20 })
    await until(async () => ((await world.once.redrive.status(id))?.applied ?? 0) > 0)
    await consumer.stop()
    const before = await applied()
    await pause(1_500)
    expect(await applied()).toEqual(before)
    expect(before.length).toBeLessThan(30)
    expect(await world.once.redrive.status(id)).toMatchObject({ working: false })
  })

  it('of a closed instance is not started again, and neither is a relay nor a consumer that pulls', async () => {
    const consumer = await hooks().start()
    const relay = world.once.relay({ to: inProcessSink(() => {}) })
    const pulled = world.consumer()
    await world.once.close()
    expect(await push(consumer, 'd1')).toBe(503)
    for (const worker of [consumer, relay, pulled])
      await expect(worker.start()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
  })
})
