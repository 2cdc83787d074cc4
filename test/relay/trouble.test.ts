import { afterEach, expect, it } from 'vitest'
import { inProcessSink, type OutgoingEvent, type RelayOptions } from '../../src/index.ts'
import { createRelay, type Relay } from '../../src/outbox/relay.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Sink } from '../../src/sink/sink.ts'
import type { Outbox } from '../../src/store/outbox.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { committedOf, judge, until, type Step } from './world.ts'

describePostgres('the relay in trouble', () => {
  const here = freshWorld()
  const relays: Relay[] = []

  afterEach(async () => {
    await Promise.all(relays.splice(0).map((relay) => relay.stop()))
  })

  const stepOf = (event: OutgoingEvent): Step => event.data as Step

  /** A relay whose outbox fails as it is told to. */
  function relay(options: RelayOptions, change: (outbox: Outbox) => Partial<Outbox> = () => ({})): Relay {
    const inner = pgStore(here.world.pool).outbox
    const outbox: Outbox = {
      open: (params) => inner.open(params),
      beat: (params) => inner.beat(params),
      lease: (params) => inner.lease(params),
      read: (params) => inner.read(params),
      ack: (params) => inner.ack(params),
      due: (params) => inner.due(params),
      tryHeld: (params) => inner.tryHeld(params),
      cancel: (params) => inner.cancel(params),
      takeDelayed: (params) => inner.takeDelayed(params),
      heldBefore: (params) => inner.heldBefore(params),
      settleHeld: (params) => inner.settleHeld(params),
      release: (params) => inner.release(params),
      resend: (params) => inner.resend(params),
      destinations: () => inner.destinations(),
      forget: (params) => inner.forget(params),
      ...change(inner),
    }
    const surroundings = { outbox, clock: systemClock, random: systemRandom, observe: () => {}, source: 'test' }
    const made = createRelay({ ...surroundings, closed: () => false }, options)
    relays.push(made)
    return made
  }

  it('asks an empty outbox at most once a second', async () => {
    const asked: string[] = []
    const told =
      <P, R>(name: string, call: (params: P) => Promise<R>) =>
      (params: P): Promise<R> => {
        asked.push(name)
        return call(params)
      }
    const idle = relay({ to: inProcessSink(() => {}), lease: '30s' }, (outbox) => ({
      beat: told('beat', (params) => outbox.beat(params)),
      lease: told('lease', (params) => outbox.lease(params)),
      read: told('read', (params) => outbox.read(params)),
      due: told('due', (params) => outbox.due(params)),
      ack: told('ack', (params) => outbox.ack(params)),
    }))
    await idle.start()
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    asked.length = 0
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    expect(asked.length).toBeLessThanOrEqual(6)
    expect(asked.length).toBeGreaterThan(0)
  })

  it('has one event per aggregate under way, where the sink keeps no order', async () => {
    const underWay = new Set<string>()
    const seen: Step[] = []
    let crowded = 0
    const to: Sink = {
      name: 'lanes',
      proves: 'accepted',
      dedupes: false,
      orders: false,
      send: (sent) =>
        Promise.all(
          sent.map(async (event) => {
            if (underWay.has(event.subject)) crowded++
            underWay.add(event.subject)
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
            underWay.delete(event.subject)
            if (Math.random() < 0.2) return { kind: 'failed', error: new Error('luck'), retryable: true } as const
            seen.push(stepOf(event))
            return { kind: 'sent' } as const
          }),
        ),
    }
    for (let i = 0; i < 60; i++) await here.world.make(`a${i % 6}`)
    await relay({ to, attempts: 1_000 }).start()
    await until(() => seen.length >= 60)
    expect(crowded).toBe(0)
    expect(judge(seen, await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
  })

  it('sends nothing past half a lease without a heartbeat, and the next owner goes on', async () => {
    const sentAt: number[] = []
    const seen: Step[] = []
    let silentSince = Infinity
    const to = inProcessSink((event) => {
      sentAt.push(performance.now())
      seen.push(stepOf(event))
    })
    await relay({ to, lease: '2s' }, (outbox) => ({
      beat: (params) =>
        performance.now() > silentSince ? Promise.reject(new Error('no connection')) : outbox.beat(params),
    })).start()
    await here.world.make('a')
    await until(() => seen.length === 1)
    silentSince = performance.now()
    while (performance.now() < silentSince + 2_500) await here.world.make('a')
    // The last heartbeat may have been just before.
    expect(Math.max(...sentAt) - silentSince).toBeLessThan(1_200)
    await relay({ to, lease: '2s' }).start()
    await until(async () => judge(seen, await committedOf(here.world)).lost === 0)
    expect(judge(seen, await committedOf(here.world)).inversions).toBe(0)
  })

  it('an acknowledgement that fails for a while is written, and nothing is sent twice', async () => {
    const seen: Step[] = []
    let failures = 0
    for (let i = 0; i < 30; i++) await here.world.make(`a${i % 3}`)
    await relay({ to: inProcessSink((event) => void seen.push(stepOf(event))) }, (outbox) => ({
      ack: (params) => (failures++ < 3 ? Promise.reject(new Error('no connection')) : outbox.ack(params)),
    })).start()
    await until(() => seen.length >= 30)
    await here.world.make('a0')
    await until(() => seen.length >= 31)
    expect(judge(seen, await committedOf(here.world))).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
  })

  it('a batch that was sent but never acknowledged is sent again', async () => {
    const seen: Step[] = []
    const to = inProcessSink((event) => void seen.push(stepOf(event)))
    for (let i = 0; i < 10; i++) await here.world.make(`a${i % 3}`)
    const lost = relay({ to, lease: '1s' }, (outbox) => ({
      // The announcement passes, the acknowledgement does not, and nobody says goodbye.
      ack: (params) => (seen.length === 0 ? outbox.ack(params) : Promise.reject(new Error('no connection'))),
      release: () => Promise.reject(new Error('no connection')),
    }))
    await lost.start()
    await until(() => seen.length >= 10)
    await lost.stop()
    await relay({ to, lease: '1s' }).start()
    await until(() => seen.length >= 20)
    const { lost: missing, inversions, duplicates } = judge(seen, await committedOf(here.world))
    expect({ missing, inversions, duplicates }).toEqual({ missing: 0, inversions: 0, duplicates: 10 })
  })

  it('drain tells when the sink stays out of order', async () => {
    await here.world.make('a')
    const to: Sink = { ...inProcessSink(() => {}), send: () => Promise.reject(new Error('refused')) }
    await expect(relay({ to }).drain()).rejects.toThrow(/refused/)
    expect(await relay({ to: inProcessSink(() => {}) }).drain()).toBe(1)
  })
})
