import { afterEach, describe, expect, test } from 'vitest'
import { effectivelyOnce, event, type Relay, type Signal } from '../index.ts'
import { SHARDS } from '../limits.ts'
import type { Sink, Verdict } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const refusing: Sink = {
  name: 'sink',
  proves: 'accepted',
  dedupes: false,
  orders: true,
  send: async (sent) => sent.map(() => ({ kind: 'failed', error: new Error('never'), retryable: true })),
}

const SENT: Verdict = { kind: 'sent' }

describe('what a relay tells', () => {
  let relay: Relay | undefined
  afterEach(() => relay?.stop())

  // The first time an event is given up by the acknowledgement of its batch, later by a settlement.
  test.each([
    ['ack', 1],
    ['settleHeld', 2],
  ] as const)('is what was written: a fenced %s parks nothing, and nobody hears of it', async (name, attempts) => {
    const memory = memoryStore()
    const inner = memory.outbox
    const signals: Signal[] = []
    const written: unknown[] = []
    let thief: readonly { shard: number; token: number }[] | undefined
    /** Everybody else has its shards when it comes to write. */
    const robbed = async (gives: boolean): Promise<void> => {
      if (!gives || thief !== undefined) return
      const other = { destination: 'sink', relay: 'thief' }
      await inner.release({ ...other, leases: taken.splice(0), leaving: false })
      thief = await inner.lease({ ...other, leaseMs: 60_000, limit: SHARDS })
    }
    const taken: { shard: number; token: number }[] = []
    const outbox: Outbox = {
      ...inner,
      async lease(params) {
        const leased = await inner.lease(params)
        taken.push(...leased)
        return leased
      },
      async ack(params) {
        await robbed(name === 'ack' && params.hold.some(({ state }) => state === 'parked'))
        const acked = await inner.ack(params)
        if (params.hold.length > 0) written.push(acked.parked)
        return acked
      },
      async settleHeld(params) {
        await robbed(name === 'settleHeld' && params.changed.some(({ state }) => state === 'parked'))
        const settled = await inner.settleHeld(params)
        written.push(settled.parked)
        return settled
      },
    }
    const store: MemoryStore = { ...memory, outbox }
    const observe = (signal: Signal): void => void signals.push(signal)
    const once = effectivelyOnce({ namespace: 'told', store, events, sweep: false, observe })
    const parked = (): Signal[] => signals.filter(({ kind }) => kind === 'parked')
    await once.run({ scope: 's', key: 'k', input: null }, ({ publish }) => publish('made', { id: 'a' }))
    relay = await once.relay({ to: refusing, attempts, lease: '600ms' }).start()
    await until(() => thief !== undefined && written.length >= attempts)
    expect(written).toEqual(Array.from({ length: attempts }, () => []))
    expect(parked()).toEqual([])
    await inner.release({ destination: 'sink', relay: 'thief', leases: thief ?? [], leaving: true })
    await until(() => parked().length > 0)
    expect(parked()).toMatchObject([{ kind: 'parked', destination: 'sink', reason: 'Error: never' }])
    expect(written.at(-1)).toHaveLength(1)
  })

  test('is once that the sink refuses everything, and again after an event was sent', async () => {
    const errors: string[] = []
    const observe = (signal: Signal): void => {
      if (signal.kind === 'troubled') errors.push((signal.error as Error).message)
    }
    const once = effectivelyOnce({ namespace: 'told', store: memoryStore(), events, sweep: false, observe })
    let refuses = true
    const sink: Sink = {
      ...refusing,
      send: (sent, context) => (refuses ? refusing.send(sent, context) : Promise.resolve(sent.map(() => SENT))),
    }
    const publish = (id: string): Promise<unknown> =>
      once.run({ scope: 's', key: id, input: null }, (op) => op.publish('made', { id }))
    for (let i = 0; i < 12; i++) await publish(`a${i}`)
    relay = await once.relay({ to: sink, attempts: 1_000 }).start()
    await until(() => errors.length > 0)
    expect(errors).toEqual([
      expect.stringMatching(/^'sink' refused 1\d times in a row, and no event was sent: Error: never$/),
    ])
    refuses = false
    await until(async () => (await once.status()).destinations.every((of) => of.waiting + of.retrying === 0))
    refuses = true
    for (let i = 0; i < 12; i++) await publish(`b${i}`)
    await until(() => errors.length > 1)
    expect(errors).toHaveLength(2)
  })
})
