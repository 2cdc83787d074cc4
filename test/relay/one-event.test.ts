import { afterEach, beforeEach, expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { natsSink, type NatsJetStream } from '../../src/broker/nats/sink.ts'
import { rabbitmqSink } from '../../src/broker/rabbitmq/sink.ts'
import type { Sink } from '../../src/sink/sink.ts'
import { describeStores, hook, never, serviceOn, stepOf, wait, type Service } from './service.ts'
import { judge, until, type Step } from './world.ts'

const stepIn = (json: string): Step => (JSON.parse(json) as { data: Step }).data

describeStores('one event and all the others', (place) => {
  let service: Service
  beforeEach(() => void (service = serviceOn(place)))
  afterEach(() => service.end())

  const others = Array.from({ length: 80 }, (_, i) => `a${i % 40}`)
  const parked = (): number => service.signals.filter(({ kind }) => kind === 'parked').length

  /** What the receiver answers to an event of a bad aggregate, and how often it did. */
  const badReceiver = (says: number | 'hangs' | 'breaks') => {
    const seen: Step[] = []
    const receiver = { seen, refused: 0, answer }
    async function answer(step: Step, signal: AbortSignal): Promise<number> {
      if (!step.aggregate.startsWith('bad')) {
        seen.push(step)
        return 200
      }
      receiver.refused++
      if (says === 'hangs') return never(signal)
      if (says === 'breaks') throw new TypeError('fetch failed')
      return says
    }
    return receiver
  }
  const badOnes = (count: number): string[] => Array.from({ length: count }, (_, i) => `bad${i}`)
  /** Makes the other events. Returns the milliseconds until the receiver has them. */
  const othersTook = async (seen: readonly Step[]): Promise<number> => {
    await service.make(others)
    const begun = performance.now()
    await until(() => seen.length >= others.length, 10_000)
    return performance.now() - begun
  }

  const ANSWERS = [503, 429, 502, 'hangs', 'breaks'] as const
  it.each([1, 3].flatMap((count) => ANSWERS.map((says) => ({ says, count }))))(
    'a webhook that says $says to $count serves the others',
    async ({ says, count }) => {
      const receiver = badReceiver(says)
      await service.make(['bad0', ...badOnes(count)])
      await service.relay({ to: hook(receiver.answer, { timeout: '500ms' }), attempts: 3 }).start()
      await until(() => receiver.refused >= count)
      await wait(300)
      expect(await othersTook(receiver.seen)).toBeLessThan(2_500)
      if (says !== 'breaks') await until(() => parked() === count, 15_000)
      for (const aggregate of badOnes(count)) service.last.delete(aggregate)
      expect(judge(receiver.seen, service.last)).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    },
  )

  it('a webhook that hangs for a few events, alone for a while, serves the others', async () => {
    const receiver = badReceiver('hangs')
    await service.make(badOnes(3))
    await service.relay({ to: hook(receiver.answer, { timeout: '4s' }) }).start()
    // The sink looks down by now, and is tried with one event.
    await until(() => receiver.refused > 3, 10_000)
    expect(await othersTook(receiver.seen)).toBeLessThan(2_500)
  })

  const throwing = (event: { data: unknown }): string => {
    if ((event.data as Step).aggregate === 'bad') throw new Error('no name for this one')
    return 'steps.made'
  }

  it.each(['nats', 'rabbitmq'])('a function of %s that throws fails its event alone', async (kind) => {
    const seen: Step[] = []
    const jetstream: NatsJetStream = {
      publish: async (_, payload) => void seen.push(stepIn(String(payload))),
      jetstreamManager: async () => ({
        streams: { info: async () => ({ config: { name: 'steps', subjects: ['steps.>'] } }) as never },
      }),
    }
    const channel = {
      active: true,
      close: async () => {},
      confirmSelect: async () => {},
      basicPublish: async (_: unknown, body: Buffer) => void seen.push(stepIn(body.toString())),
      exchangeDeclare: async () => {},
      on: () => {},
    }
    const connection = { ready: true, acquire: async () => channel, onConnect: async () => {} }
    const to =
      kind === 'nats'
        ? natsSink(jetstream, { stream: 'steps', subject: throwing })
        : rabbitmqSink(connection as never, { exchange: 'steps', routingKey: throwing })
    await service.make(['bad'])
    await service.make(others)
    await service.relay({ to, attempts: 2 }).start()
    await until(() => seen.length >= others.length, 2_500)
    await until(() => parked() === 1)
    expect(service.signals.find(({ kind: of }) => of === 'parked')).toMatchObject({
      reason: expect.stringContaining('no name for this one'),
    })
  })

  it('an event for a time that no store can write delays itself alone', async () => {
    const seen: Step[] = []
    await service.make(['far'], { notBefore: new Date(8.64e15) })
    await service.make(['past'], { notBefore: new Date(-8.64e15) })
    await service.make(others)
    await service.relay({ to: inProcessSink((sent) => void seen.push(stepOf(sent))) }).start()
    await until(() => seen.length >= others.length + 1, 3_000)
    await service.make(['far'])
    await until(() => seen.length >= others.length + 2, 3_000)
    expect(seen.filter(({ aggregate }) => aggregate === 'far')).toEqual([{ aggregate: 'far', n: 2 }])
  })

  /** Cannot send whatever comes together with an event of 'bad'. */
  const allOrNothing = (seen: Step[], refused: () => void): Sink => ({
    ...inProcessSink(() => {}, { name: 'all or nothing' }),
    async send(sent) {
      const steps = sent.map(stepOf)
      if (steps.some(({ aggregate }) => aggregate === 'bad')) {
        refused()
        throw new Error('cannot encode')
      }
      seen.push(...steps)
      return sent.map(() => ({ kind: 'sent' }))
    },
  })

  it('a sink that rejects whatever comes with one event gets the others through', async () => {
    const seen: Step[] = []
    let poison = 0
    const to = allOrNothing(seen, () => poison++)
    await service.make([...others.slice(0, 20), 'bad', ...others.slice(20)])
    await service.relay({ to, attempts: 3 }).start()
    await until(() => seen.length >= others.length, 5_000)
    expect(poison).toBeGreaterThan(0)
  })

  it('an event that a sink rejects between any two others is given up, though never two of them wait', async () => {
    const seen: Step[] = []
    let poison = 0
    await service.make(['bad'])
    await service.relay({ to: allOrNothing(seen, () => poison++), attempts: 3 }).start()
    for (let i = 0; parked() === 0 && i < 30; i++) {
      const before = poison
      await until(() => poison > before || parked() > 0)
      // Its pause begins now, and ends with this one.
      await service.make(['a1'])
      await until(() => seen.length > i)
    }
    expect(parked()).toBe(1)
  })

  it.each([503, 'refused'])(
    'a receiver that is down (%s) counts against nobody, and is found again in time',
    async (says) => {
      const seen: Step[] = []
      let down = true
      const answer = async (step: Step): Promise<number> => {
        if (down && says === 'refused') throw new TypeError('fetch failed')
        if (down) return 503
        seen.push(step)
        return 200
      }
      await service.make(others)
      await service.relay({ to: hook(answer), attempts: 1 }).start()
      await wait(2_000)
      down = false
      const begun = performance.now()
      await until(() => seen.length >= others.length)
      expect(performance.now() - begun).toBeLessThan(3_000)
      expect(parked()).toBe(0)
      expect(judge(seen, service.last)).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    },
  )

  it('a relay whose sink is dead leaves its shards to the others, and says so', async () => {
    const seen: Step[] = []
    let dead = true
    const deaf = inProcessSink(() => {}, { name: 'shared' })
    const to: Sink = {
      ...deaf,
      async send(sent) {
        if (dead) throw new Error('the connection is gone')
        seen.push(...sent.map(stepOf))
        return sent.map(() => ({ kind: 'sent' }))
      },
    }
    const well = inProcessSink((sent) => void seen.push(stepOf(sent)), { name: 'shared' })
    const first = await service.relay({ to, lease: '1s' }).start()
    await service.relay({ to: well, lease: '1s' }).start()
    await wait(1_500)
    for (let i = 0; i < 4; i++) await service.make(others)
    const left = (): number => judge(seen, service.last).lost
    // All but what is in the one shard by which the first one looks whether it works again.
    await until(() => left() < 60, 8_000)
    const told = service.signals
      .filter(({ kind }) => kind === 'troubled')
      .map((of) => String((of as { error: unknown }).error))
    expect(told.join('\n')).toContain('the other relays take over')
    dead = false
    await until(() => left() === 0, 4_000)
    expect(judge(seen, service.last).inversions).toBe(0)
    await first.stop()
  })

  it('a relay whose broker cannot be reached leaves every shard, and comes back', async () => {
    const [byFirst, seen]: [Step[], Step[]] = [[], []]
    let dead = true
    const first: Sink = {
      ...inProcessSink(() => {}, { name: 'reached' }),
      async open() {
        if (dead) throw new Error('the connection is gone')
        return []
      },
      async send(sent) {
        if (dead) throw new Error('the connection is gone')
        byFirst.push(...sent.map(stepOf))
        seen.push(...sent.map(stepOf))
        return sent.map(() => ({ kind: 'sent' }))
      },
    }
    const well = inProcessSink((sent) => void seen.push(stepOf(sent)), { name: 'reached' })
    dead = false
    const relay = await service.relay({ to: first, lease: '1s' }).start()
    await service.relay({ to: well, lease: '1s' }).start()
    await wait(1_500)
    dead = true
    for (let i = 0; i < 4; i++) await service.make(others)
    await until(() => judge(seen, service.last).lost === 0, 15_000)
    dead = false
    await until(async () => {
      await service.make(others)
      return byFirst.length > 0
    }, 15_000)
    await until(() => judge(seen, service.last).lost === 0, 5_000)
    expect(judge(seen, service.last).inversions).toBe(0)
    await relay.stop()
  })

  it('a destination that is forgotten beside its relay is known again', async () => {
    const seen: Step[] = []
    const to = inProcessSink((sent) => void seen.push(stepOf(sent)), { name: 'forgotten' })
    await service.relay({ to, lease: '600ms' }).start()
    await service.make(['a'])
    await until(() => seen.length === 1)
    await service.once.forget({ destination: 'forgotten' })
    await service.make(['b'])
    await until(() => seen.some(({ aggregate }) => aggregate === 'b'), 5_000)
    expect(judge(seen, service.last)).toMatchObject({ lost: 0, inversions: 0 })
  })
})
