import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeStores, serviceOn, wait, type Service } from './service.ts'
import { receiverThat, say, type Answer, type Receiver } from './receiver.ts'
import { judge, until } from './world.ts'

describeStores('webhook receivers on a real server', (place) => {
  let service: Service
  let receivers: Receiver[] = []
  beforeEach(() => void (service = serviceOn(place)))
  afterEach(async () => {
    await service.end()
    for (const receiver of receivers) await receiver.close()
    receivers = []
  })

  const open = async (answer: Answer): Promise<Receiver> => {
    const receiver = await receiverThat(answer)
    receivers.push(receiver)
    return receiver
  }
  const many = (count: number, aggregates = 40): string[] =>
    Array.from({ length: count }, (_, i) => `a${i % aggregates}`)
  const sent = (): number => service.signals.reduce((sum, of) => sum + (of.kind === 'sent' ? of.events : 0), 0)
  const perfect = { lost: 0, inversions: 0, duplicates: 0 }
  const timed = async (work: Promise<unknown>): Promise<number> => {
    const at = performance.now()
    await work
    return performance.now() - at
  }

  it('one that is slow, with stops in the middle: each event is sent once', async () => {
    const r = await open(async (_, res) => {
      await wait(30)
      say(res)
    })
    await service.make(many(400))
    for (let i = 0; i < 4; i++) {
      const relay = await service.relay({ to: r.sink() }).start()
      await wait(250)
      expect(await timed(relay.stop())).toBeLessThan(2_000)
      const n = r.requests()
      await wait(50)
      expect(r.requests()).toBe(n)
    }
    await service.relay({ to: r.sink() }).drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(r.requests()).toBe(400)
    expect(sent()).toBe(400)
  })

  it('one that hangs: a stop ends within its time', async () => {
    let hangs = true
    const r = await open((_, res) => {
      if (!hangs) say(res)
    })
    await service.make(many(100))
    const relay = await service.relay({ to: r.sink({ timeout: '60s' }) }).start()
    await until(() => r.requests() >= 16)
    expect(await timed(relay.stop({ within: '2s' }))).toBeLessThan(2_300)
    hangs = false
    await service.relay({ to: r.sink() }).drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(sent()).toBe(100)
  })

  it('one that answers 503 to one aggregate', async () => {
    const r = await open((step, res) => say(res, step.aggregate === 'a7' ? 503 : 200))
    await service.make(many(200))
    await service.relay({ to: r.sink(), attempts: 3 }).start()
    await until(() => r.acknowledged.length === 195, 10_000)
    await until(() => service.signals.some(({ kind }) => kind === 'parked'), 15_000)
    service.last.delete('a7')
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
  })

  it('one that closes sockets without an answer', async () => {
    let n = 0
    const r = await open((_, res) => {
      if (n++ % 7 === 3) res.destroy()
      else say(res)
    })
    await service.make(many(300))
    const relay = await service.relay({ to: r.sink() }).start()
    await until(() => r.acknowledged.length >= 300, 25_000)
    await relay.drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(sent()).toBe(300)
  })

  it('one that answers half: the status counts, and the rest holds up nothing', async () => {
    const r = await open((_, res) => {
      res.writeHead(200, { 'content-length': '1000' })
      res.write('half')
    })
    await service.make(many(100))
    const relay = await service.relay({ to: r.sink({ timeout: '3s' }) }).start()
    await until(() => r.acknowledged.length >= 100, 10_000)
    await relay.drain()
    expect(await timed(relay.stop())).toBeLessThan(1_000)
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(r.requests()).toBe(100)
  })

  it('one whose answers never end', async () => {
    const r = await open((_, res) => {
      res.writeHead(200)
      const more = (): void => {
        if (!res.destroyed) res.write(Buffer.alloc(16_384), () => setTimeout(more, 1))
      }
      more()
    })
    await service.make(many(100))
    const relay = await service.relay({ to: r.sink() }).start()
    await until(() => r.acknowledged.length >= 100, 10_000)
    await relay.stop()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
  })

  it('relays come and go, and the others drain', async () => {
    const r = await open(async (_, res) => {
      await wait(5)
      say(res)
    })
    const making = { on: true }
    const made = (async () => {
      for (let i = 0; i < 60; i++) {
        await service.make(many(20))
        await wait(20)
      }
      making.on = false
    })()
    const first = await service.relay({ to: r.sink(), lease: '3s' }).start()
    while (making.on) {
      const other = await service.relay({ to: r.sink(), lease: '3s' }).start()
      await wait(150)
      await Promise.all([first.drain(), other.drain()])
      await other.stop()
    }
    await made
    await first.drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(r.requests()).toBe(1_200)
  }, 60_000)

  it('a drain takes the shards that another relay has released', async () => {
    const r = await open(async (_, res) => {
      await wait(3)
      say(res)
    })
    const lost: number[] = []
    for (let i = 0; i < 12; i++) {
      const one = await service.relay({ to: r.sink(), lease: '3s' }).start()
      const two = await service.relay({ to: r.sink(), lease: '3s' }).start()
      await wait(300)
      await service.make(many(64, 64))
      await Promise.all([one.stop(), two.drain()])
      const at = performance.now()
      await two.drain()
      const drained = performance.now() - at
      const left = judge(r.acknowledged, service.last).lost
      if (left > 0) lost.push(left)
      await until(() => judge(r.acknowledged, service.last).lost === 0, 10_000)
      expect(drained).toBeLessThan(5_000)
      await two.stop()
    }
    expect(lost).toEqual([])
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
  }, 60_000)

  it('a drain after each publish sends it', async () => {
    const r = await open((_, res) => say(res))
    const relay = await service.relay({ to: r.sink() }).start()
    for (let i = 1; i <= 60; i++) {
      await service.make(['x'])
      await relay.drain()
      expect(r.acknowledged.length).toBe(i)
    }
  })

  it('one that hangs for one event: each request ends at its time limit', async () => {
    const took: number[] = []
    const r = await open((step, res) => {
      const at = performance.now()
      if (step.aggregate !== 'bad') return say(res)
      res.on('close', () => took.push(performance.now() - at))
    })
    await service.make(['bad', ...many(50)])
    const relay = await service.relay({ to: r.sink({ timeout: '300ms' }), attempts: 4 }).start()
    await until(() => service.signals.some(({ kind }) => kind === 'parked'), 20_000)
    await relay.stop()
    expect(took.every((ms) => ms > 200 && ms < 900)).toBe(true)
  })

  it('a pause hands over nothing', async () => {
    const r = await open(async (_, res) => {
      await wait(10)
      say(res)
    })
    await service.make(many(300))
    const relay = await service.relay({ to: r.sink() }).start()
    for (let i = 0; i < 5; i++) {
      await wait(60)
      relay.pause()
      await wait(60)
      const n = r.requests()
      await wait(60)
      expect(r.requests()).toBe(n)
      relay.resume()
    }
    await relay.drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
    expect(sent()).toBe(300)
  })

  it('a rate limit does not hold up a stop', async () => {
    const r = await open((_, res) => say(res))
    await service.make(many(100))
    const relay = await service.relay({ to: r.sink(), rate: 20 }).start()
    await wait(1_000)
    expect(r.requests()).toBeLessThan(45)
    expect(await timed(relay.stop())).toBeLessThan(500)
    await service.relay({ to: r.sink() }).drain()
    expect(judge(r.acknowledged, service.last)).toEqual(perfect)
  })
})
